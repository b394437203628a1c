"""Move to the newest stable release of the series: pin it, apply, configure, build, gate, and leave one commit.

A later revision of the package that the pinned source is from counts as newer: distributions fix a release that way.

Each step is a target of the Makefile, which goes on where it was. A bump is under way while the lock differs from the
last commit's, so whatever stopped it, the same command goes on when that is fixed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from functools import cmp_to_key
from pathlib import Path

from scripts import config, files, kconfig, lock, repository, sources
from scripts.console import BUILD, ROOT, UserError, main, say, step
from scripts.flavours import FLAVOURS
from scripts.lock import Source, numbers
from scripts.sources import Place

SPEC = ROOT / "SPECS" / "kernel-thp.spec"
# What a bump changes, and so all that its commit takes.
PATHS = ("SOURCES/sources.lock", "SOURCES/config", "SPECS/kernel-thp.spec", "patches")
# What to do where a step stops.
STEPS = {
    "tree": "do what it says, in the tree",
    "refresh": "do what it says",
    "config": "change the fragments in SOURCES/config/",
    "gate": "fix it in the tree, in the fragments or in the tests",
}
# Which changes of the configurations the last run has shown.
SHOWN = BUILD / "bump-answers"


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UserError(f"git {arguments[0]} failed: {done.stderr.strip()}", "bump needs a clone of the repository")
    return done.stdout


def committed(path: Path) -> str:
    """Return a file as the last commit has it; empty if it is not in it."""
    name = path.relative_to(ROOT).as_posix()
    return git("show", f"HEAD:{name}") if git("ls-tree", "--name-only", "HEAD", name) else ""


def under_way() -> bool:
    return lock.LOCK.read_text() != committed(lock.LOCK)


def newer(source: Source, pinned: Source) -> bool:
    if source.version != pinned.version:
        return numbers(source.version) > numbers(pinned.version)
    # A revision says something about others of the same package alone. rpm compares Debian's as dpkg does.
    same = source.kind == pinned.kind and source.package
    return bool(same) and repository.newer(*(known.package.rpartition("=")[2] for known in (source, pinned)))


def order(one: Source, other: Source) -> int:
    return newer(other, one) - newer(one, other)


def offers(series: str, known: Iterable[Place]) -> list[Source]:
    """Return what all places list, newest first, and in the order of the places where they list the same."""
    listed = []
    for place in known:
        found = sorted(place.listed(series), key=cmp_to_key(order)) if place.usable() else []
        say(f"  {place.kind}: {found[0].version if found else 'nothing'}")
        listed += found
    return sorted(listed, key=lambda source: numbers(source.version), reverse=True)


def named(source: Source) -> str:
    return f"Linux {source.version} of {source.package}" if source.package else f"Linux {source.version}"


def find(pinned: Source, listed: Sequence[Source], known: Sequence[Place]) -> Source | None:
    """Fetch the newest of what is newer than the pinned one and that a place still has."""
    for source in listed:
        if not newer(source, pinned):
            continue
        found = sources.take(source, known)
        if found:
            return found
        say(f"  {source.kind} lists {named(source)}, but its files are gone")
    return None


def lines(found: Source, listed: Sequence[Source], old: Sequence[Source], kinds: Sequence[str]) -> list[Source]:
    """Return the lines of the new lock: what was fetched, then the other places with what is known of them.

    That is the hash in a signed index, or at kernel.org the signature; a place of which neither is known keeps its
    line of an older version, for a bump on a host that can ask it.
    """
    known = {source.kind: source for source in old}
    release = known.get(lock.KERNEL_ORG)
    if not release or release.version != found.version:
        known[lock.KERNEL_ORG] = Source(found.name, found.version, lock.UNKNOWN, lock.KERNEL_ORG)
    known.update({s.kind: s for s in listed if s.version == found.version and s.sha256 != lock.UNKNOWN})
    return [found, *(known[kind] for kind in kinds if kind in known and kind != found.kind)]


def pin(found: Source, new: Sequence[Source]) -> None:
    """Write a version into the spec and the lock; the lock last, because it says that a bump is under way."""
    text = SPEC.read_text()
    spec, count = re.subn(r"(?m)^(%\{!\?base:%global base\s+)[\d.]+", rf"\g<1>{found.version}", text)
    if count != 1 or "%changelog\n" not in spec:
        raise UserError(f"{SPEC} has no line for the base version, or no changelog", "`git checkout` it")
    today = datetime.now(timezone.utc).strftime("%a %b %d %Y")
    entry = f"* {today} kernel-thp project <kernel-thp@example.org> - {found.version}-1\n- {named(found)}.\n\n"
    files.replace(SPEC, spec.replace("%changelog\n", f"%changelog\n{entry}", 1))
    lock.write(new)


def behind(pinned: Source, listed: Sequence[Source], tried: bool) -> None:
    """Fail if a place lists something newer than the pinned source, whether or not this run has tried to get it."""
    missed = [source for source in listed if newer(source, pinned)]
    if missed:
        first = named(missed[0])
        where = ", ".join(dict.fromkeys(source.kind for source in missed if source.version == missed[0].version))
        what = f"{named(pinned)} is behind: {where} lists {first}"
        if not tried:
            raise UserError(what, "run `make bump` once more")
        raise UserError(
            f"{what}, and no place gives it to this host",
            "run `make bump` again when the archive has the files, or on a host that reaches another place",
        )


def newest(pinned: Source, listed: Sequence[Source], known: Iterable[Place]) -> str:
    """Say who lists nothing newer than the pinned version, and who did not answer and so may have something newer."""
    kinds = {source.kind for source in listed}
    silent = [place.kind for place in known if place.kind not in kinds]
    text = f"nothing to do: {named(pinned)} is the newest {pinned.series}.y of {', '.join(sorted(kinds))}"
    return f"{text}; *** no answer from {', '.join(silent)}, which may have a newer one ***" if silent else text


def make(target: str, hint: str) -> None:
    """Run a target of the Makefile; it has said what is wrong if it fails."""
    say(f"bump: make {target}")
    if subprocess.run(["make", "--no-print-directory", target], cwd=ROOT, check=False).returncode != 0:
        raise UserError(f"the bump stopped at `make {target}`", f"{hint}, then `make bump` goes on")


def answers() -> list[str]:
    """Return what differs between the complete configurations and those of the last commit."""
    found = []
    for flavour in FLAVOURS.values():
        path = config.complete(flavour)
        before, after = kconfig.parse(committed(path)), kconfig.parse(path.read_text())
        for option in sorted(before.keys() | after.keys()):
            old, new = before.get(option, "absent"), after.get(option, "absent")
            if old != new:
                found.append(f"{flavour.name}: {option}: {old} -> {new}")
    return found


def show_answers() -> None:
    """Stop once at what Kconfig has answered by itself, for somebody to look at it; run again, the same is accepted."""
    text = "".join(f"{line}\n" for line in answers())
    if text and not (SHOWN.exists() and SHOWN.read_text() == text):
        files.replace(SHOWN, text)
        raise UserError(
            f"the new release changes the configurations where no fragment decides:\n{text}",
            "put what should differ into a fragment in SOURCES/config/; then `make bump` goes on",
        )


def commit(pinned: Source) -> None:
    changed = git("diff", "--name-only", "HEAD", "--", "patches").splitlines()
    names = sorted(Path(name).stem for name in changed if name.endswith(".patch"))
    patches = f"Changed with it: {', '.join(names)}." if names else "The series applies as it was."
    revised = f"%global base {pinned.version}}}" in committed(SPEC)
    git("add", "--all", "--", *PATHS)
    message = ("--message", f"Move to {named(pinned)}", "--message", f"{patches} The gate of the cloud flavour passed.")
    git("commit", "--quiet", *message, "--", *PATHS)
    SHOWN.unlink(missing_ok=True)
    say(f"bump: committed {named(pinned)}; `make check-full` tests the rest, CONTRIBUTING.md says how to record it")
    if revised:
        say("bump: *** the version is the same: give a SPIN that is higher than that of what hosts have ***")


def bump(until: str, known: Sequence[Place]) -> None:
    pinned = lock.read()[0]
    with step(f"ask every place for its newest {pinned.series}.y"):
        listed = offers(pinned.series, known)
    resumed = under_way()
    if resumed:
        say(f"bump: going on with {named(pinned)}")
    else:
        dirty = git("status", "--porcelain", "--", *PATHS).strip()
        if dirty:
            raise UserError(f"there is uncommitted work in what a bump changes:\n{dirty}", "commit or undo it")
        if not listed:
            raise UserError(
                f"no place lists any Linux {pinned.series}.y", "check the network and apt's or dnf's sources"
            )
        with step(f"fetch what is newer than {named(pinned)}"):
            found = find(pinned, listed, known)
        if found is None:
            behind(pinned, listed, tried=True)
            say(f"bump: {newest(pinned, listed, known)}")
            return
        pin(found, lines(found, listed, lock.everything(), list(lock.KINDS)))
        say(f"bump: {named(found)} is pinned")
        pinned = found
    for target, hint in STEPS.items():
        make(target, hint)
        if target == "config":
            show_answers()
        if target == until:
            say(f"bump: stopped behind {until}, as asked; `make bump` goes on")
            return
    commit(pinned)
    behind(pinned, listed, tried=not resumed)


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--until", choices=STEPS, default="", metavar="STEP", help=f"stop behind {', '.join(STEPS)}")
    bump(parser.parse_args().until, sources.places())


if __name__ == "__main__":
    main(command)
