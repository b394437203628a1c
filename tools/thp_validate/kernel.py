"""Which kernel runs, and whether it is what was packaged and signed."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

from .system import System

VARIANT = re.compile(r"\+thp(\.debug)?$")
NORMAL, DEBUG, OTHER = "kernel-thp", "kernel-thp-debug", "other"
KEY = re.compile(r"Key (?:ID|Fingerprint:?) ([0-9a-fA-F]{8,})")
# What `rpm -V` prints before a file: nine tests, `.` passed, `?` could not be done, a letter failed.
ATTRIBUTES = re.compile(r"^(missing|[.?A-Z5]{8,9})\s+(?:[a-z] )?\s*(/.*)$")
NOT_ALLOWED = "(Permission denied)"


@dataclass
class Kernel:
    uname: str = ""
    variant: str = OTHER
    nevra: str | None = None
    signature: str | None = None
    key_known: bool | None = None
    changed: list[str] | None = None
    series: str | None = None
    config_sha256: str | None = None
    tainted: int | None = None
    command_line: list[str] = field(default_factory=list)


def look(system: System) -> Kernel:
    kernel = Kernel(uname=system.word("/proc/sys/kernel/osrelease") or "")
    match = VARIANT.search(kernel.uname)
    if match:
        kernel.variant = DEBUG if match.group(1) else NORMAL
    tainted = system.word("/proc/sys/kernel/tainted") or ""
    kernel.tainted = int(tainted) if tainted.isdecimal() else None
    words = (system.read("/proc/cmdline") or "").split()
    kernel.command_line = [word for word in words if word.startswith("transparent_hugepage=")]
    kernel.config_sha256 = _configuration(system, kernel.uname)
    series = system.bytes_of(f"/lib/modules/{kernel.uname}/series")
    kernel.series = None if series is None else hashlib.sha256(series).hexdigest()
    _package(system, kernel)
    return kernel


def _configuration(system: System, uname: str) -> str | None:
    for name in (f"/lib/modules/{uname}/config", f"/boot/config-{uname}"):
        content = system.bytes_of(name)
        if content is not None:
            return hashlib.sha256(content).hexdigest()
    return None


def _package(system: System, kernel: Kernel) -> None:
    """Ask rpm; a container has an rpm database of its own, which knows nothing of the host's kernel."""
    if kernel.variant == OTHER or system.container():
        return
    image = f"/lib/modules/{kernel.uname}/vmlinuz"
    owner = system.ask(["rpm", "-qf", "--qf", "%{NAME} %{NEVRA} %{EVR}\n", image])
    if owner is None:
        return
    if owner.code != 0:
        failures = failed(owner.text)
        if failures:
            system.unseen["rpm"] = failures[0]
        return
    name, kernel.nevra, release = owner.text.split()[:3]
    kernel.signature = signature(_said(system, "-qi", kernel.nevra))
    keys = _said(system, "-q", "--qf", "%{VERSION}\n", "gpg-pubkey").split()
    kernel.key_known = None if kernel.signature is None else key_known(kernel.signature, keys)
    modules = f"{name[: -len('core')]}modules-{release}"
    parts = [part for part in (kernel.nevra, modules) if _installed(system, part)]
    verified = system.ask(["rpm", "-V", "--nodeps", "--noscripts", *parts])
    if verified is None:
        return
    changed, unread, said = changes(verified.text)
    for path in unread:
        system.unseen[path] = "not readable, so rpm could not verify it"
    if said:
        system.unseen["rpm -V"] = said[0]
    else:
        kernel.changed = changed


def _said(system: System, *question: str) -> str:
    answer = system.ask(["rpm", *question])
    return answer.text if answer and answer.code == 0 else ""


def _installed(system: System, package: str) -> bool:
    answer = system.ask(["rpm", "-q", package])
    return answer is not None and answer.code == 0


def failed(said: str) -> list[str]:
    """Return how rpm itself failed: it also calls a file not owned when it cannot open its database."""
    errors = [line for line in said.splitlines() if line.startswith("error:")]
    return [
        line for line in errors if not (line.startswith("error: file ") and line.endswith("No such file or directory"))
    ]


def signature(information: str) -> str | None:
    """Return the signature out of `rpm -qi`; newer rpm puts it on a line of its own."""
    match = re.search(r"^Signature\s*:\s*(\S.*)$", information, re.MULTILINE)
    return match.group(1).strip() if match and KEY.search(match.group(1)) else None


def key_known(signed: str, keys: list[str]) -> bool:
    """Say whether the key of a signature is among the versions of the gpg-pubkey packages, short or long ids."""
    match = KEY.search(signed)
    return match is not None and match.group(1).lower()[-8:] in [key.lower()[-8:] for key in keys]


def changes(verified: str) -> tuple[list[str], list[str], list[str]]:
    """Return the files that `rpm -V` finds changed, those it could not read, and what it said besides."""
    changed, unread, said = [], [], []
    for line in verified.splitlines():
        match = ATTRIBUTES.match(line)
        if match is None:
            said += [line.strip()] if line.strip() else []
        elif set(match.group(1)) <= {".", "?"} or line.endswith(NOT_ALLOWED):
            unread.append(match.group(2).replace(NOT_ALLOWED, "").rstrip())
        else:
            changed.append(f"{match.group(2)} ({match.group(1)})")
    return changed, unread, said
