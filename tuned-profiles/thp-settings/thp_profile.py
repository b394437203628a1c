#!/usr/bin/python3 -IS
"""Decide what a profile of tuned-profiles-thp sets on this host, and verify that it is in force.

Only tuned calls this, by the link in the folder of a profile, whose name says which one. In functions of tuned.conf:
`include` prints the parts to include, `check` why the profile is refused, or `none`, and `value FILE` what to write
to a file. As the profile's script: `start` warns of a kernel that cannot do what the profile is for, `verify` reads
everything back, `stop` does nothing. Exit codes: 0 success; 1 failed or not in force, with one line per reason on
stderr, which tuned writes to its log; 2 wrong usage.
"""

from __future__ import annotations

import configparser
import os
import re
import sys
from pathlib import Path

THP = Path("/sys/kernel/mm/transparent_hugepage")
OPERATOR = Path("/etc/tuned/thp-shrinker-variables.conf")
# Beside the program itself, not beside the link.
DEFAULTS = Path(__file__).resolve().with_name("defaults.conf")
CMDLINE = Path("/proc/cmdline")
MODULES = Path("/lib/modules")
BOOT = Path("/boot")

BASELINE = "thp-baseline"
OWN_THRESHOLD = "underused_max_ptes_none"
KHUGEPAGED = "khugepaged/max_ptes_none"
SWITCH = "shrink_underused"
SWAPIN = "swapin_enabled"
DEFRAG_MODE = "defrag_mode"
# In `uname -r` of every flavour of kernel-thp.
OURS = "+thp"
# Below a tenth, the kernel would split huge pages that are in use; at 100, the threshold would mean nothing.
PERCENT = range(10, 100)
ALLOWED = {
    "enabled": ("always", "madvise"),
    "defrag": ("always", "defer", "defer+madvise", "madvise", "never"),
    "defrag_mode": ("0", "1"),
    "swapin_enabled": ("always", "madvise", "never"),
    "threshold_percent": tuple(map(str, PERCENT)),
    "khugepaged": ("keep", "threshold"),
}
ALLOWED_IN_BASELINE = {**ALLOWED, "enabled": ("auto", "always", "madvise", "never")}

Values = dict[str, str]


class Refused(Exception):
    """Why a profile cannot load here and what to do about it, in one line."""


# The kernel's files: below THP, but for the mode


def path(node: str) -> Path:
    return Path("/proc/sys/vm/defrag_mode") if node == DEFRAG_MODE else THP / node


def has(node: str) -> bool:
    return path(node).exists()


def read(node: str) -> str:
    """Return the value of a file; from a list like `always [madvise] never`, the word in force."""
    text = path(node).read_text().strip()
    chosen = re.search(r"\[([^]]+)\]", text)
    return chosen[1] if chosen else text


def base_pages() -> int:
    """Return the number of base pages in a huge page: 512 on x86_64, 8192 on arm64 with 64 KiB pages."""
    return int(read("hpage_pmd_size")) // os.sysconf("SC_PAGE_SIZE")


def lacks(profile: str) -> str:
    """Return why this kernel cannot do what the profile is for, and what to do about it, or an empty string."""
    if not THP.is_dir():
        return f"this kernel has no transparent huge pages, so {profile} sets nothing"
    if profile != BASELINE and not has(SWITCH):
        missing = f"Linux {os.uname().release} has no underused shrinker, so {profile} sets nothing"
        return f"{missing}: boot kernel-thp-cloud, kernel-thp, or Linux 6.12 or later"
    return ""


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
    if profile not in known:
        raise Refused(f"{profile} is only a part, use one of {', '.join(known)}")
    found = known[profile]
    for section, values in (parse(OPERATOR) if OPERATOR.exists() else {}).items():
        if section not in known:
            raise Refused(f"[{section}] in {OPERATOR} is no profile, it can be {', '.join(known)}")
        for name in values:
            if name not in known[section]:
                raise Refused(f"{name} in {OPERATOR} is not a value of {section}, it has {', '.join(known[section])}")
        if section == profile:
            found.update(values)
    for name, value in found.items():
        allowed = (ALLOWED_IN_BASELINE if profile == BASELINE else ALLOWED)[name]
        if value not in allowed:
            short = f"{PERCENT[0]} to {PERCENT[-1]}" if name == "threshold_percent" else ", ".join(allowed)
            raise Refused(f"{name}={value} in {OPERATOR} is not possible, it can be {short}")
    return found


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
    """Return file -> value, for those files of this kernel that the profile sets."""
    chosen = settings(profile)
    enabled = distribution_default() if chosen["enabled"] == "auto" else chosen["enabled"]
    common = {node: chosen[node] for node in (SWAPIN, DEFRAG_MODE) if has(node)}
    common |= {"defrag": chosen["defrag"], "enabled": enabled}
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


# What tuned asks for


def include(profile: str) -> str:
    """Return the parts of the profile; tuned goes on without one whose name begins with a dash."""
    if lacks(profile):
        return "-nothing"
    try:
        nodes = wanted(profile)
    except (Refused, OSError):
        nodes = {}  # The first part asks for the reason, and refuses the profile.
    parts = {KHUGEPAGED: "thp-khugepaged", DEFRAG_MODE: "thp-defrag-mode"}
    return ",".join(["thp-settings", *(part for node, part in parts.items() if node in nodes)])


def check(profile: str) -> str:
    """Return why the profile is refused, or `none`. tuned-adm prints it."""
    try:
        wanted(profile)
    except (Refused, OSError) as error:
        # These characters have a special meaning in tuned.
        return re.sub(r"[:${}\\]", "?", str(error))
    return "none"


def verify(profile: str) -> list[str]:
    """Return what is not in force, and why."""
    if lacks(profile):
        return [lacks(profile)]
    nodes = wanted(profile)
    different = {node: read(node) for node in nodes if read(node) != nodes[node]}
    problems = [f"{path(node)} is {found}, expected {nodes[node]}: {cause(node)}" for node, found in different.items()]
    return problems + other_sizes(nodes["enabled"])


def cause(node: str) -> str:
    again = f"another profile or program, or a later change in {OPERATOR}; apply the profile again"
    if node == "enabled" and on_command_line():
        return f"fixed by transparent_hugepage={on_command_line()} on the kernel command line, remove that and reboot"
    if node == DEFRAG_MODE:
        return f"{again}; if the kernel refuses it, this machine is too small: set defrag_mode=0 in {OPERATOR}"
    return again


def other_sizes(enabled: str) -> list[str]:
    """Linux 6.8 and later have a switch per size, which is usually `inherit` for the largest size."""
    node = f"hugepages-{int(read('hpage_pmd_size')) // 1024}kB/enabled"
    if not has(node) or read(node) in ("inherit", enabled):
        return []
    return [f"{path(node)} is {read(node)} and overrides enabled={enabled}, write inherit to it"]


def main(program: str, *words: str) -> int:
    profile, action = Path(program).parent.name, words[0] if words else ""
    problems: list[str] = []
    try:
        if action == "include":
            print(include(profile), end="")
        elif action == "check":
            print(check(profile), end="")
        elif action == "value" and len(words) == 2:
            print(wanted(profile).get(words[1], ""), end="")
        elif action == "start":
            problems = [lacks(profile)]
        elif action == "verify":
            problems = verify(profile)
        elif action != "stop":
            print("only tuned calls this program; use tuned-adm profile, see tuned-profiles-thp(7)", file=sys.stderr)
            return 2
    except (Refused, OSError) as error:
        problems = [str(error)]
    for problem in filter(None, problems):
        print(problem, file=sys.stderr)
    return 1 if any(problems) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv))
