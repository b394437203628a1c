"""The tarballs of kernel.org, or of a mirror, each checked against the signature beside it."""

from __future__ import annotations

import os
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from scripts import lock, signature
from scripts.console import UserError, say
from scripts.lock import Source

# The environment variable KERNEL_ORG names a mirror; what a mirror sends has to carry the same signatures.
BASE = "https://cdn.kernel.org/pub/linux/kernel"
TIMEOUT = 20.0
FAILURES = (urllib.error.URLError, TimeoutError, ConnectionError)


class KernelOrg:
    """Linux as it is released."""

    kind = lock.KERNEL_ORG

    def __init__(self, keys: Path = signature.KEYS, signers: Mapping[str, str] | None = None) -> None:
        self.keys = keys
        self.signers = signers

    @staticmethod
    def usable() -> bool:
        return True

    @staticmethod
    def folder(series: str) -> str:
        base = os.environ.get("KERNEL_ORG") or BASE
        if not re.match(r"https?://", base):
            raise UserError(f"KERNEL_ORG={base} is no URL", f"give the mirror of {BASE}")
        return f"{base.rstrip('/')}/v{series.split('.')[0]}.x"

    def listed(self, series: str) -> list[Source]:
        """Return what the listing of the folder, which nobody signs, has of a series, newest first."""
        url = f"{self.folder(series)}/"
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
                page = answer.read().decode(errors="replace")
        except FAILURES as error:
            say(f"  {url}: {error}")
            return []
        found = set(re.findall(rf"linux-({re.escape(series)}\.\d+)\.tar\.xz\"", page))
        versions = sorted(found, key=lock.numbers, reverse=True)
        return [Source("linux", version, lock.UNKNOWN, self.kind) for version in versions]

    def fetch(self, source: Source, part: Path) -> bool:
        """Download a tarball and check who signed it; no answer is no error, because another place may have it."""
        signed = part.with_suffix(".sign")
        name = f"{self.folder(source.series)}/linux-{source.version}.tar"
        try:
            for url, target in ((f"{name}.sign", signed), (f"{name}.xz", part)):
                with urllib.request.urlopen(url, timeout=TIMEOUT) as answer, target.open("wb") as handle:
                    shutil.copyfileobj(answer, handle, 1 << 20)
            who = signature.check(part, signed, self.keys, self.signers)
        except FAILURES as error:
            part.unlink(missing_ok=True)
            say(f"  {url}: {error}")
            return False
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        finally:
            signed.unlink(missing_ok=True)
        say(f"  linux-{source.version}.tar is signed by {who}")
        return True
