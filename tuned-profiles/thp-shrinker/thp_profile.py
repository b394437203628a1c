#!/usr/bin/python3 -I
"""Compute the values of a profile of tuned-profiles-thp, write them, and verify that they are in force.

Only tuned calls this: `check`, `nodes` and `value` while it loads a profile; `start`, `verify` and `stop` from its
script plugin, which passes the variables of the profile in the environment. Exit codes: 0 success, 1 failed or not in
force, with one line per reason on stderr (tuned writes them to its log), 2 wrong usage.
"""

from __future__ import annotations

import configparser
import errno
import json
import os
import re
import sys
from pathlib import Path

THP = Path("/sys/kernel/mm/transparent_hugepage")
OPERATOR = Path("/etc/tuned/thp-shrinker-variables.conf")
DEFAULTS = Path(__file__).with_name("defaults.conf")
# Lost at a reboot, like the values.
ORIGINALS = Path("/run/tuned/thp-originals.json")
CMDLINE = Path("/proc/cmdline")
MODULES = Path("/lib/modules")
BOOT = Path("/boot")
ACTIVE = (Path("/etc/tuned/active_profile"), Path("/etc/tuned/post_loaded_profile"))

BASELINE = "thp-baseline"
OWN_THRESHOLD = "underused_max_ptes_none"
KHUGEPAGED = "khugepaged/max_ptes_none"
SWITCH = "shrink_underused"
SWAPIN = "swapin_enabled"
# Elsewhere: joined to THP, an absolute path stays as it is.
DEFRAG_MODE = "/proc/sys/vm/defrag_mode"
# tuned's vm plugin writes these.
BY_TUNED = ("defrag", "enabled")
NODES = (KHUGEPAGED, OWN_THRESHOLD, SWITCH, SWAPIN, DEFRAG_MODE, *BY_TUNED)
# In `uname -r` of every flavour of kernel-thp.
OURS = "+thp"
# The variables thp_active and thp_nodes of tuned.conf.
LOADED_PROFILE = "TUNED_thp_active"
LOADED_NODES = "TUNED_thp_nodes"

Values = dict[str, str]


class Refused(Exception):
    """Why a profile cannot load here and what to do about it, in one line."""


def has(node: str) -> bool:
    return (THP / node).exists()


def read(node: str) -> str:
    """Return the value of a file; from a list like `always [madvise] never`, the word in force."""
    text = (THP / node).read_text().strip()
    chosen = re.search(r"\[([^]]+)\]", text)
    return chosen[1] if chosen else text


def choices(node: str) -> list[str]:
    return (THP / node).read_text().replace("[", "").replace("]", "").split()


def base_pages() -> int:
    """Return the number of base pages in a huge page: 512 on x86_64, 8192 on arm64 with 64 KiB pages."""
    return int(read("hpage_pmd_size")) // os.sysconf("SC_PAGE_SIZE")


# Settings: the package's defaults, overridden by the operator's


def parse(path: Path) -> dict[str, Values]:
    # No section is special: an unknown section is refused by its name.
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except configparser.MissingSectionHeaderError as error:
        raise Refused(f"line {error.lineno} of {path} is in no section, write [thp-shrinker] above it") from None
    except (configparser.Error, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read, {' '.join(str(error).split())}") from None
    return {name: dict(parser[name]) for name in parser.sections()}


def settings(profile: str) -> Values:
    known = parse(DEFAULTS)
    found = known[profile]
    for section, values in (parse(OPERATOR) if OPERATOR.exists() else {}).items():
        if section not in known:
            raise Refused(f"[{section}] in {OPERATOR} is no profile, it can be {', '.join(known)}")
        for name, value in values.items():
            if name not in known[section]:
                raise Refused(f"{name} in {OPERATOR} is not a value of {section}, it has {', '.join(known[section])}")
            if section == profile:
                found[name] = value
    validate(profile, found)
    return found


def validate(profile: str, found: Values) -> None:
    enabled = ["auto", *choices("enabled")] if profile == BASELINE else ["always", "madvise"]
    allowed = {
        "enabled": enabled,
        "defrag": choices("defrag"),
        "defrag_mode": ["0", "1"],
        "swapin_enabled": ["always", "madvise", "never"],
        "threshold_percent": [str(number) for number in range(1, 100)],
        "khugepaged": ["keep", "threshold"],
    }
    for name, value in found.items():
        if value not in allowed[name]:
            short = "1 to 99" if name == "threshold_percent" else ", ".join(allowed[name])
            raise Refused(f"{name}={value} in {OPERATOR} is not possible, it can be {short}")


def on_command_line() -> str | None:
    """Return the value of the last transparent_hugepage= on the kernel command line."""
    given = [word.partition("=")[2] for word in CMDLINE.read_text().split() if word.startswith("transparent_hugepage=")]
    return given[-1] if given else None


def by_number(release: str) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", release)]


def distribution_default() -> str:
    """Return how this host would enable huge pages without kernel-thp."""
    fixed = on_command_line()
    if fixed:
        return fixed
    configs = {path.parent.name: path for path in MODULES.glob("*/config")}
    configs.update({path.name.removeprefix("config-"): path for path in BOOT.glob("config-*")})
    for release in sorted((name for name in configs if OURS not in name), key=by_number, reverse=True):
        match = re.search(r"^CONFIG_TRANSPARENT_HUGEPAGE_(ALWAYS|MADVISE|NEVER)=y", configs[release].read_text(), re.M)
        if match:
            return match[1].lower()
    raise Refused(f"no kernel of the distribution has a default, set enabled in section [{BASELINE}] of {OPERATOR}")


def wanted(profile: str) -> Values:
    """Return file -> value, in the order in which to write them."""
    chosen = settings(profile)
    enabled = distribution_default() if chosen["enabled"] == "auto" else chosen["enabled"]
    # One variables file serves hosts with and without these. Refusing it there would cost them the whole profile.
    newer = {SWAPIN: chosen["swapin_enabled"], DEFRAG_MODE: chosen["defrag_mode"]}
    here = {node: value for node, value in newer.items() if has(node)}
    common = {**here, "defrag": chosen["defrag"], "enabled": enabled}
    if profile == BASELINE:
        # kernel-thp replaces the distribution's kernel, which has no shrinker. Linux 6.12 enables its own by default.
        shrinker = {SWITCH: "1"} if has(SWITCH) else {}
        if has(OWN_THRESHOLD):
            shrinker = {OWN_THRESHOLD: "khugepaged", SWITCH: "0"}
        return {KHUGEPAGED: str(base_pages() - 1), **shrinker, **common}
    threshold = str(base_pages() * int(chosen["threshold_percent"]) // 100)
    thresholds = {OWN_THRESHOLD: threshold} if has(OWN_THRESHOLD) else {KHUGEPAGED: threshold}
    if chosen["khugepaged"] == "threshold":
        thresholds[KHUGEPAGED] = threshold
    return {**thresholds, SWITCH: "1", **common}


# While tuned loads a profile


def check(profile: str) -> str:
    """Return why the profile cannot load here, or `none`. tuned prints this when it refuses the profile."""
    if not THP.is_dir():
        return "this kernel has no transparent huge pages"
    if profile != BASELINE and not has(SWITCH):
        release = os.uname().release
        return f"Linux {release} has no underused shrinker, boot kernel-thp-cloud, kernel-thp, or Linux 6.12 or later"
    try:
        nodes = wanted(profile)
    except (Refused, OSError) as error:
        # These characters have a special meaning in tuned.
        return re.sub(r"[:${}\\]", "?", str(error))
    closed = [node for node in nodes if not os.access(THP / node, os.W_OK)]
    if closed:
        return f"{THP / closed[0]} cannot be written, use the profile on the host and not in a container"
    return "none"


# While a profile is active


def save_originals() -> None:
    """Save the current values, unless a killed daemon left a saved file: then the current values are the profile's."""
    if ORIGINALS.exists():
        return
    part = ORIGINALS.with_suffix(".part")
    part.parent.mkdir(mode=0o755, exist_ok=True)
    part.write_text(json.dumps({node: read(node) for node in NODES if has(node)}))
    part.replace(ORIGINALS)


def write(values: Values) -> list[str]:
    """Write the values that differ; return the problems."""
    problems = []
    for node, value in values.items():
        try:
            if read(node) != value:
                (THP / node).write_text(value)
        except OSError as error:
            why = error.strerror
            if node == DEFRAG_MODE and error.errno == errno.EOPNOTSUPP:
                why = f"this machine is too small for it, set defrag_mode=0 in {OPERATOR}"
            problems.append(f"cannot write {value} to {THP / node}, {why}")
    return problems


def start(nodes: Values) -> list[str]:
    save_originals()
    return write({node: value for node, value in nodes.items() if node not in BY_TUNED})


def stop() -> list[str]:
    try:
        originals = json.loads(ORIGINALS.read_text())
    except FileNotFoundError:
        return [f"{ORIGINALS} is gone, so the values stay as they are until a reboot"]
    except ValueError:
        return [f"{ORIGINALS} is damaged, so the values stay as they are until a reboot"]
    problems = write(originals)
    ORIGINALS.unlink()
    return problems


def verify(profile: str, nodes: Values) -> list[str]:
    problems = []
    for node, value in nodes.items():
        if not has(node):
            problems.append(f"{THP / node} is missing, was the profile applied on another kernel?")
        elif read(node) != value:
            problems.append(f"{THP / node} is {read(node)}, expected {value}{reason(node)}")
    problems += other_sizes(nodes["enabled"])
    if problems:
        return problems
    refusal = check(profile)
    if refusal != "none":
        problems.append(f"{profile} would be refused now: {refusal}")
    elif wanted(profile) != nodes:
        problems.append(f"the values of {profile} changed since it was applied, apply it again ({OPERATOR})")
    return problems


def reason(node: str) -> str:
    fixed = on_command_line()
    if node == "enabled" and fixed:
        return f": fixed by transparent_hugepage={fixed} on the kernel command line, remove that and reboot"
    cause = "a program changed it or the kernel refused it" if node == DEFRAG_MODE else "a program changed it"
    names = " ".join(path.read_text() for path in ACTIVE if path.exists()).split()
    if len(names) > 1:
        return f": {cause}, or another active profile: of {', '.join(names)} the last one decides"
    return f": {cause}, apply the profile again"


def other_sizes(enabled: str) -> list[str]:
    """Linux 6.8 and later have a switch per size, which is usually `inherit` for the largest size."""
    node = f"hugepages-{int(read('hpage_pmd_size')) // 1024}kB/enabled" if has("hpage_pmd_size") else ""
    if not node or not has(node) or read(node) in ("inherit", enabled):
        return []
    return [f"{THP / node} is {read(node)} and overrides enabled={enabled}, write inherit to it"]


def loaded() -> tuple[str, Values]:
    """Return the active profile and its values, which tuned passes on from when it loaded the profile."""
    return os.environ[LOADED_PROFILE], dict(pair.split("=", 1) for pair in os.environ[LOADED_NODES].split())


def report(problems: list[str]) -> int:
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def main(words: list[str]) -> int:
    action, arguments = (words[0], words[1:]) if words else ("", [])
    if action == "check" and len(arguments) == 1:
        print(check(arguments[0]))
        return 0
    if action == "nodes" and len(arguments) == 1:
        print(" ".join(f"{node}={value}" for node, value in wanted(arguments[0]).items()))
        return 0
    if action == "value" and len(arguments) == 2:
        print(wanted(arguments[0])[arguments[1]])
        return 0
    if action == "stop":
        return report(stop())
    if action in ("start", "verify") and {LOADED_PROFILE, LOADED_NODES} <= set(os.environ):
        profile, nodes = loaded()
        return report(start(nodes) if action == "start" else verify(profile, nodes))
    print("only tuned calls this program; use tuned-adm profile, see tuned-profiles-thp(7)", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
