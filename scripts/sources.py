"""Fetch the pinned kernel source (`fetch`), or pin the newest one that can be downloaded (`bump`)."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import urllib.error
import urllib.request
from datetime import datetime, timezone
from pathlib import Path

from scripts import distro, files, lock
from scripts.console import ROOT, UserError, main, say, step
from scripts.lock import Source

KERNEL_ORG = "https://cdn.kernel.org/pub/linux/kernel/v{major}.x/linux-{version}.tar.xz"
SPEC = ROOT / "SPECS" / "kernel-thp.spec"
TIMEOUT = 20.0


def part_of(source: Source) -> Path:
    """Return the name of a download until its hash is checked."""
    return source.path.with_suffix(".part")


def from_kernel_org(source: Source) -> bool:
    """Download to the temporary name; no answer is no error, because another kind may have the file."""
    url = KERNEL_ORG.format(major=source.version.split(".")[0], version=source.version)
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer, part_of(source).open("wb") as part:
            shutil.copyfileobj(answer, part, 1 << 20)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        say(f"  {url}: {error}")
        return False
    return True


def settle(source: Source) -> None:
    """Rename a download to its final name if its hash is that of the lock; delete it otherwise."""
    part = part_of(source)
    found = lock.sha256(part)
    if found != source.sha256:
        part.unlink()
        raise UserError(
            f"{source.path.name} from {source.kind} has the wrong hash: expected {source.sha256}, found {found}",
            "do not use it; run `make sources` again, and if that does not help find out who changed the file",
        )
    part.replace(source.path)


def have(source: Source) -> bool:
    return source.path.exists() and lock.sha256(source.path) == source.sha256


def take(source: Source, host: distro.Debian | distro.Rpm) -> bool:
    """Fetch one source from the site that its kind names; return whether that worked."""
    if have(source):
        return True
    source.path.parent.mkdir(parents=True, exist_ok=True)
    got = from_kernel_org(source) if source.kind == "kernel.org" else source.kind == host.kind and host.fetch(source)
    if got:
        settle(source)
    return got


def newest(series: str, host: distro.Debian | distro.Rpm) -> Source | None:
    """Fetch the newest available version of a series, and return it. An index may list files that are gone."""
    for source in host.versions(series):
        if take(source, host):
            return source
        say(f"  {source.version} is listed, but its files are gone")
    return None


def remember(source: Source) -> None:
    files.replace(lock.USED, source.line())


def fetch() -> None:
    pinned = lock.read()
    for source in pinned:
        if have(source):
            remember(source)
            say(f"sources: {source.path.name} is there, sha256 {source.sha256[:16]}")
            return
    host = distro.host()
    with step(f"fetch Linux {pinned[0].version}"):
        for source in pinned:
            if take(source, host):
                remember(source)
                return
        other = newest(pinned[0].series, host)
    wanted = f"Linux {pinned[0].version} of SOURCES/sources.lock is no longer available anywhere"
    if other is None:
        raise UserError(f"{wanted}, and neither is any other {pinned[0].series}.y", "check network and apt sources")
    if os.environ.get("CI") != "true":
        raise UserError(f"{wanted}; the newest available is {other.version}", "run `make bump` to pin that")
    say("*" * 100)
    say(f"*** CI: {wanted}; using {other.version} ***")
    say("*" * 100)
    remember(other)


def pin(source: Source) -> None:
    """Write a version into the lock and the spec."""
    comments = [line for line in lock.LOCK.read_text().splitlines(keepends=True) if line.startswith("#")]
    files.replace(lock.LOCK, "".join(comments) + source.line())
    spec = re.sub(r"(?m)^(%\{!\?base:%global base\s+)[\d.]+", rf"\g<1>{source.version}", SPEC.read_text())
    today = datetime.now(timezone.utc).strftime("%a %b %d %Y")
    entry = f"* {today} kernel-thp project <kernel-thp@example.org> - {source.version}-1\n- Linux {source.version}.\n\n"
    files.replace(SPEC, spec.replace("%changelog\n", f"%changelog\n{entry}", 1))


def bump() -> None:
    pinned = lock.read()[0]
    with step(f"find the newest {pinned.series}.y"):
        found = newest(pinned.series, distro.host())
    if found is None:
        raise UserError(f"no {pinned.series}.y is available", "check the network and the apt sources")
    if distro.numbers(found.version) <= distro.numbers(pinned.version):
        say(f"bump: {pinned.version} is the newest {pinned.series}.y available, nothing to do")
        return
    pin(found)
    remember(found)
    say(f"bump: Linux {found.version} is pinned; now run `make tree` and fix what does not apply")


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["fetch", "bump"])
    action = parser.parse_args().action
    (fetch if action == "fetch" else bump)()


if __name__ == "__main__":
    main(command)
