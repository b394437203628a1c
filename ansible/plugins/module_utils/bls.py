"""Boot entries as the Boot Loader Specification has them: a file for each kernel, which systemd-boot and GRUB read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.module_utils import files
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

# What boot counting appends to a name: tries left, and tries done. It does not match the `+thp` of a kernel.
TRIES = re.compile(r"\+\d+(?:-\d+)?$")
SUFFIX = ".conf"


@dataclass(frozen=True)
class Entry:
    """`name` is the file's without suffix and tries, so it stays the same while the loader counts."""

    file: str
    version: str
    linux: str
    initrds: tuple[str, ...]
    options: str

    @property
    def name(self) -> str:
        return TRIES.sub("", self.file[: -len(SUFFIX)])

    @property
    def counted(self) -> bool:
        """Say whether the loader still counts tries, because no boot of the entry was marked as good."""
        return TRIES.search(self.file[: -len(SUFFIX)]) is not None


def parse(file: str, content: str) -> Entry:
    fields: dict[str, list[str]] = {}
    for line in content.splitlines():
        key, _, value = line.strip().partition(" ")
        if key and not key.startswith("#"):
            fields.setdefault(key, []).append(value.strip())
    initrds = " ".join(fields.get("initrd", [])).split()
    return Entry(
        file=file,
        version="".join(fields.get("version", [])[:1]),
        linux="".join(fields.get("linux", [])[:1]),
        initrds=tuple(word for word in initrds if not word.startswith("$")),
        options=" ".join(fields.get("options", [])),
    )


def entries(folder: Path) -> list[Entry]:
    found = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    return [parse(path.name, files.text(path) or "") for path in found]


def find(folder: Path, uname: str) -> Entry:
    """Return the entry of a kernel. Of several, choose the one that kernel-install named after the kernel."""
    found = [entry for entry in entries(folder) if entry.version == uname]
    if len(found) > 1:
        found = [entry for entry in found if entry.name.endswith(f"-{uname}")]
    if len(found) != 1:
        how_many = "no boot entry" if not found else f"{len(found)} boot entries"
        raise Problem(f"{how_many} for {uname} in {folder}", f"see what `kernel-install add {uname}` says")
    return found[0]


def pattern(entry: Entry) -> str:
    """Return a pattern that matches this entry with tries and without, and no other entry, present or future.

    The loader compares file names. A good boot removes the tries; installing the same package again adds them. So the
    name is followed by `.co` of `.conf`, or by `+`, a digit, and the rest of the tries. The names of other flavours of
    the same release continue with `.cloud` or `.debug`. This holds for all kernels of x86_64; elsewhere another kernel
    may be called `+64k`.
    """
    return f"{entry.name}[+.][0-9c][-.0-9o]*"


def names(entry: Entry, wanted: str | None) -> bool:
    """Say whether a loader with the default `wanted` starts this entry and no other; loaders ignore case.

    A pattern that is not ours does not count, even if it only matches this entry now: an operator's `ID-*` also matches
    the kernel that is installed next, and that may be its first match.
    """
    known = (entry.file, f"{entry.name}{SUFFIX}", entry.name, pattern(entry))
    return wanted is not None and wanted.lower() in [name.lower() for name in known]


def with_options(content: str, change: Callable[[str], str]) -> str:
    """Return an entry with its kernel command line changed, and nothing else."""
    line = re.search(r"^([ \t]*options)([ \t]+|$)(.*)$", content, re.MULTILINE)
    old = line[3] if line else ""
    new = change(old)
    if new == old:
        return content
    if line is None:
        return "\n".join([*content.splitlines(), f"options {new}"]) + "\n"
    return content[: line.end(1)] + (line[2] or " ") + new + content[line.end() :]
