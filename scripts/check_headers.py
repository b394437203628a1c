"""Check the headers of the series against the rules of patches/README.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from scripts import lock, series
from scripts.console import ROOT, UserError, main, say

OWNER = f"{series.PROJECT[0]} <{series.PROJECT[1]}>"
PITFALLS = ROOT / "patches" / "README.md"
REQUIRED = ROOT / "tests" / "selftests" / "required.txt"
# The closed vocabulary, in the order a header has it.
TAGS = ("Upstream", "Pitfalls", "Proved-by", "Signed-off-by")
TAG = re.compile(r"^([A-Z][A-Za-z-]+): *(.*)$")
NONE = re.compile(r"none \(\S.*\)")
SUBJECT = re.compile(r"(mm(/[\w.-]+)?(, [\w/.-]+)*|KVM: arm64): \S.*[^.\s]")
COMMIT = re.compile(r"[0-9a-f]{12,40} \(v\d+\.\d+(\.\d+)?(, v\d+\.\d+(\.\d+)?)*\)")


def pitfall_ids(readme: Path) -> set[str]:
    """Return the ids in the first column of the provenance table, each of which is there once."""
    cells = re.findall(r"(?m)^\| *([A-Z]\d+(?:, [A-Z]\d+)*) *\|", readme.read_text())
    found = [name for cell in cells for name in cell.split(", ")]
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        raise UserError(f"{readme.name} has two rows {', '.join(twice)}", "give the newer one an id of its own")
    return set(found)


def test_names(required: Path) -> set[str]:
    lines = (line.split("#")[0].split() for line in required.read_text().splitlines())
    return {words[0] for words in lines if words}


def last_paragraph(message: str) -> list[tuple[str, str]]:
    """Return the tags that close a message; a line that begins with a space goes on with the tag above it."""
    paragraph = re.sub(r"\n[ \t]+", " ", message.strip().split("\n\n")[-1])
    found = (TAG.match(line) for line in paragraph.splitlines())
    return [(match[1], match[2].strip()) if match else ("", "") for match in found]


def names(value: str) -> list[str]:
    return [name for name in re.split(r",\s*", value) if name]


def check_upstream(value: str) -> list[str]:
    rest = COMMIT.sub("", value)
    if NONE.fullmatch(value) or (COMMIT.match(value) and not rest.replace(",", "").strip()):
        return []
    return [f"Upstream: '{value}' is neither '<12 to 40 digits> (v6.12)' nor 'none (<reason>)'"]


def check_listed(tag: str, value: str, known: set[str], reason_needed: bool) -> list[str]:
    if NONE.fullmatch(value) or (value == "none" and not reason_needed):
        return []
    if not value or value.startswith("none"):
        return [f"{tag}: '{value}' names nothing; write names or 'none (<reason>)'"]
    return [f"{tag}: {name} does not exist" for name in names(value) if name not in known]


def problems(text: str, pitfalls: set[str], tests: set[str]) -> list[str]:
    """Return what is wrong with the header of one patch."""
    header, _, rest = text.partition("\n\n")
    message = rest.partition("\n---\n")[0]
    fields = dict(re.findall(r"(?m)^([A-Z][a-z]+): ((?:.*)(?:\n[ \t].*)*)", header))
    found = []
    if not header.startswith(f"From {'0' * 40} "):
        found.append("the first line carries a commit id; `make refresh` writes it without one")
    if fields.get("From") != OWNER:
        found.append(f"From: is not {OWNER}")
    subject = re.sub(r"\s+", " ", fields.get("Subject", ""))
    if not SUBJECT.fullmatch(subject):
        found.append(f"Subject: '{subject}' is not 'mm: ...' or 'mm/<file>: ...' without a full stop")

    tags = last_paragraph(message)
    if [name for name, _ in tags] != list(TAGS):
        present = ", ".join(name or "text" for name, _ in tags)
        return [*found, f"the last paragraph has {present}; it must have exactly {', '.join(TAGS)}"]
    if message.strip().count("\n\n") < 1:
        found.append("there is no body: problem, approach, effect")
    value = dict(tags)
    found += check_upstream(value["Upstream"])
    found += check_listed("Pitfalls", value["Pitfalls"], pitfalls, reason_needed=False)
    found += check_listed("Proved-by", value["Proved-by"], tests, reason_needed=True)
    if value["Signed-off-by"] != OWNER:
        found.append(f"Signed-off-by: is not {OWNER}")
    return found


def check(patches: Sequence[Path], pitfalls: set[str], tests: set[str]) -> list[str]:
    return [f"{patch.name}: {problem}" for patch in patches for problem in problems(patch.read_text(), pitfalls, tests)]


def command() -> None:
    patches = series.Series(ROOT / "patches" / lock.read()[0].series).patches()
    wrong = check(patches, pitfall_ids(PITFALLS), test_names(REQUIRED))
    if wrong:
        raise UserError(
            "the headers break the rules:\n" + "\n".join(wrong) + "\n", "fix them; patches/README.md has the rules"
        )
    say(f"headers: {len(patches)} patches keep the rules")


if __name__ == "__main__":
    main(command)
