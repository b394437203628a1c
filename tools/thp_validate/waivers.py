"""Waivers: taint flags and complaints of the kernel that somebody accepts on this host, why, and until when.

The file has one section per waiver, see thp-validate(1). A waiver that is wrong or has expired waives nothing, and is
reported. Flags that put memory, machine or kernel in doubt cannot be waived.
"""

from __future__ import annotations

import configparser
import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from . import taint
from .kernel import Kernel
from .system import System

FILE = "/etc/thp-validate.conf"
TAINT, MODULE, LOG = "taint", "module", "log"
SUBJECTS = (TAINT, MODULE, LOG)
KEYS = (*SUBJECTS, "reason", "expires")


@dataclass(frozen=True)
class Waiver:
    """One section of the file, which holds until the end of its last day, UTC."""

    name: str
    subject: Annotated[str, "what it waives: taint flags, what modules taint, or complaints in the log", SUBJECTS]
    value: Annotated[str, "letters of flags, names of modules, or a regular expression"]
    reason: str
    expires: Annotated[str, "its last day, YYYY-MM-DD"]


@dataclass
class Waived:
    """What a waiver was used for."""

    what: Annotated[str, "a taint flag, or a line of the log"]
    waiver: Annotated[str, "its name"]


@dataclass
class Waivers:
    """The file of waivers."""

    file: str
    valid: list[Waiver] = field(default_factory=list)
    problems: Annotated[list[str], "why waivers waive nothing"] = field(default_factory=list)
    waived: list[Waived] = field(default_factory=list)

    def of(self, subject: str) -> list[Waiver]:
        return [waiver for waiver in self.valid if waiver.subject == subject]

    def until(self, name: str) -> str:
        """Return the end and the reason of a waiver, in words."""
        waiver = next(each for each in self.valid if each.name == name)
        return f"[{name}] until {waiver.expires}: {waiver.reason}"


def collect(system: System, file: str = FILE, today: datetime.date | None = None) -> Waivers | None:
    """Return None where there is no file, or it cannot be read."""
    text = system.read(file)
    if text is None:
        return None
    found = Waivers(file)
    parser = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        parser.read_string(text, file)
    except configparser.Error as error:
        found.problems.append(f"the whole file: {' '.join(error.message.split())}")
        return found
    for name in parser.sections():
        values = dict(parser[name])
        problem = _problem(values, today or datetime.datetime.now(datetime.timezone.utc).date())
        if problem:
            found.problems.append(f"[{name}]: {problem}")
            continue
        (subject,) = (key for key in SUBJECTS if key in values)
        found.valid.append(Waiver(name, subject, values[subject], values["reason"], values["expires"]))
    return found


def _problem(values: dict[str, str], today: datetime.date) -> str | None:
    unknown = sorted(set(values) - set(KEYS))
    if unknown:
        return f"{unknown[0]} is unknown, it can be {', '.join(KEYS)}"
    subjects = [key for key in SUBJECTS if key in values]
    if len(subjects) != 1:
        return f"it has {len(subjects)} of {', '.join(SUBJECTS)}, and needs one"
    empty = [key for key in (*subjects, "reason", "expires") if not values.get(key)]
    if empty:
        return f"{empty[0]} is missing"
    try:
        last = datetime.date.fromisoformat(values["expires"])
    except ValueError:
        last = None
    if last is None or values["expires"] != last.isoformat():
        return f"expires is {values['expires']}, no date like 2027-06-30"
    if last < today:
        return f"it expired on {last}"
    return _wrong_flags(values[TAINT].split()) if TAINT in values else _wrong_pattern(values.get(LOG, ""))


def _wrong_flags(letters: Sequence[str]) -> str | None:
    known = {flag.letter: flag for flag in taint.FLAGS}
    for letter in letters:
        if not re.fullmatch(r"#\d+", letter) and letter not in known:
            return f"{letter} is no taint flag, these are {' '.join(known)}"
        if letter in known and known[letter].verdict == taint.UNSUPPORTED:
            return f"{letter} cannot be waived: {known[letter].meaning}"
    return None


def _wrong_pattern(pattern: str) -> str | None:
    try:
        re.compile(pattern)
    except re.error as error:
        return f"log is not a regular expression: {error}"
    return None


def apply(waivers: Waivers | None, kernel: Kernel) -> None:
    """Note what is waived. Complaints that are waived are no longer among those of the kernel."""
    if waivers is None:
        return
    for flag in kernel.taints:
        waiver = _of_flag(waivers, flag.letter, kernel.modules)
        if waiver and flag.verdict == taint.DEGRADED:
            waivers.waived.append(Waived(flag.letter, waiver.name))
    for line in list(kernel.splats or ()):
        accepts = next((each for each in waivers.of(LOG) if re.search(each.value, line)), None)
        if accepts and kernel.splats:
            waivers.waived.append(Waived(line, accepts.name))
            kernel.splats.remove(line)


def _of_flag(waivers: Waivers, letter: str, modules: dict[str, str]) -> Waiver | None:
    """Return a waiver of the flag; waivers of modules count if each module that sets the flag has one."""
    own = next((each for each in waivers.of(TAINT) if letter in each.value.split()), None)
    setting = [name for name, letters in modules.items() if letter in letters]
    by_module = {name: each for each in waivers.of(MODULE) for name in each.value.split()}
    covered = bool(setting) and all(name in by_module for name in setting)
    return own or (by_module[setting[0]] if covered else None)
