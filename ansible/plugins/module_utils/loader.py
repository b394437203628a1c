"""What a rollout needs from any boot loader: keep a default, boot another kernel once, and report both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Optional

from ansible_collections.kernel_thp.fleet.plugins.module_utils import bls, files, trial
from ansible_collections.kernel_thp.fleet.plugins.module_utils.bls import Entry
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

# The loader's configuration, by names that only the loader uses; None means not configured.
Settings = dict[str, Optional[str]]


class Loader(ABC):
    """A boot loader that reads BLS entries."""

    name: ClassVar[str]

    def __init__(self, root: Path, boot: Path) -> None:
        self.root = root
        # The file system with the entries; their paths are relative to it.
        self.boot = boot
        self.folder = boot / "loader" / "entries"

    # What differs

    @abstractmethod
    def settings(self) -> Settings:
        """Return the settings that decide the default, for `restore`."""

    @abstractmethod
    def restore(self, settings: Settings) -> None:
        """Restore what `settings` returned earlier."""

    @abstractmethod
    def keep(self, entry: Entry) -> None:
        """Make an entry the default, even if other kernels are installed later."""

    @abstractmethod
    def kept(self, entry: Entry) -> bool:
        """Say whether `keep` is in effect for this entry."""

    @abstractmethod
    def set_once(self, entry: Entry | None) -> None:
        """Boot an entry in the next boot only; None cancels that."""

    @abstractmethod
    def once(self) -> str | None:
        """Return what the next boot starts instead of the default."""

    @abstractmethod
    def selected(self) -> str | None:
        """Return the entry that started the running kernel, or None if the loader does not report it."""

    @abstractmethod
    def problems(self) -> list[str]:
        """Return the reasons why a one-time boot does not work on this host."""

    # What does not differ

    def entry(self, uname: str) -> Entry:
        return bls.find(self.folder, uname)

    def incomplete(self, entry: Entry) -> list[str]:
        """Return the files of an entry that are missing or empty: /boot was full, or dracut failed."""
        return [name for name in (entry.linux, *entry.initrds) if name and not self._file(name)]

    def _file(self, name: str) -> bool:
        # For GRUB, paths start at the root of the file system with /boot, which can be that of `/`.
        candidates = [self.boot / name.lstrip("/"), self.root / name.lstrip("/")]
        return any(path.is_file() and path.stat().st_size > 0 for path in candidates)

    def set_trial(self, entry: Entry, words: Sequence[str]) -> bool:
        """Replace the trial's words on the command line of an entry; say whether that changed it."""
        path = self.folder / entry.file
        content = files.text(path)
        if content is None:
            raise Problem(f"{path} cannot be read", "check its file system")
        wanted = bls.with_options(content, lambda options: " ".join([trial.without(options), *words]).lstrip())
        return files.put(path, wanted, mode=path.stat().st_mode & 0o777)
