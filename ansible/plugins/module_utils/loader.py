"""What a rollout needs a boot loader to do, whichever it is: keep a default, start another kernel once, say so."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Optional

from ansible_collections.kernel_thp.fleet.plugins.module_utils import bls, files, trial
from ansible_collections.kernel_thp.fleet.plugins.module_utils.bls import Entry
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

# What is configured, by names that are the loader's own business; None is not configured.
Settings = dict[str, Optional[str]]


class Loader(ABC):
    """A boot loader that reads BLS entries."""

    name: ClassVar[str]

    def __init__(self, root: Path, boot: Path) -> None:
        self.root = root
        # The file system with the entries, from where their paths count.
        self.boot = boot
        self.folder = boot / "loader" / "entries"

    # What differs

    @abstractmethod
    def settings(self) -> Settings:
        """Return what decides about the default, so that `restore` can put it back."""

    @abstractmethod
    def restore(self, settings: Settings) -> None:
        """Put back what `settings` returned at another time."""

    @abstractmethod
    def keep(self, entry: Entry) -> None:
        """Make an entry the default, and see to it that no kernel that is installed later takes its place."""

    @abstractmethod
    def kept(self, entry: Entry) -> bool:
        """Say whether `keep` was done for this entry and still holds."""

    @abstractmethod
    def set_once(self, entry: Entry | None) -> None:
        """Have the next boot, and only that, start an entry; None: take that back."""

    @abstractmethod
    def once(self) -> str | None:
        """Return what the next boot is told to start instead of the default."""

    @abstractmethod
    def selected(self) -> str | None:
        """Return the entry the running kernel was started by, or None where the loader does not say."""

    @abstractmethod
    def problems(self) -> list[str]:
        """Return what keeps a one-time boot on this host from working."""

    # What does not

    def entry(self, uname: str) -> Entry:
        return bls.find(self.folder, uname)

    def incomplete(self, entry: Entry) -> list[str]:
        """Return the files of an entry that are not there or empty: /boot was full, or dracut failed."""
        return [name for name in (entry.linux, *entry.initrds) if name and not self._file(name)]

    def _file(self, name: str) -> bool:
        # GRUB takes paths from the root of the file system that /boot is on, which can be that of `/`.
        candidates = [self.boot / name.lstrip("/"), self.root / name.lstrip("/")]
        return any(path.is_file() and path.stat().st_size > 0 for path in candidates)

    def set_trial(self, entry: Entry, words: Sequence[str]) -> bool:
        """Have these words of a trial on the command line of an entry, and none of another; say whether it changed."""
        path = self.folder / entry.file
        content = files.text(path)
        if content is None:
            raise Problem(f"{path} cannot be read", "look at its file system")
        wanted = bls.with_options(content, lambda options: " ".join([trial.without(options), *words]).lstrip())
        return files.put(path, wanted, mode=path.stat().st_mode & 0o777)
