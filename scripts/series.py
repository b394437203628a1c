"""The patch series as a git tree and back: `tree` builds it, `refresh` writes the patches from it."""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path

from scripts import files, lock
from scripts.console import BUILD, ROOT, UserError, main, say, step
from scripts.lock import Source

SPEC = ROOT / "SPECS" / "kernel-thp.spec"
PROJECT = ("kernel-thp project", "kernel-thp@example.org")
SPEC_BLOCK = re.compile(r"(?<=^# series: begin\n).*?(?=^# series: end$)", re.MULTILINE | re.DOTALL)
# Whatever a user's git is set to, the same commits give the same bytes.
FORMAT = (
    *("format-patch", "--quiet", "--no-cover-letter", "--no-attach", "--no-thread", "--no-base", "--no-notes"),
    *("--zero-commit", "--no-signature", "--no-numbered", "--keep-subject", "--encode-email-headers"),
    *("--full-index", "--no-renames", "--diff-algorithm=myers", "--unified=3", "--inter-hunk-context=0"),
    *("--stat=80", "--summary", "--src-prefix=a/", "--dst-prefix=b/", "--no-ext-diff", "--no-textconv", "--no-color"),
)
# `mm/huge_memory: `, `mm, oom: `, `KVM: arm64: `.
SUBSYSTEM = re.compile(r"^(?:[\w./-]+(?:, [\w./-]+)*: )+")
SLUG_LIMIT = 50
BASE_DATE = "2000-01-01T00:00:00+00:00"
AM = ("am", "--quiet", "--keep-non-patch", "--no-3way", "--committer-date-is-author-date")


class Series:
    """The patches of one base kernel, in order. Lines with # in the list are comments."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.list = folder / "series"

    def lines(self) -> list[str]:
        return self.list.read_text().splitlines() if self.list.exists() else []

    def patches(self) -> list[Path]:
        """Return the files of the series; one listed twice, missing or left out is an error."""
        names = [line.strip() for line in self.lines() if line.strip() and not line.startswith("#")]
        paths = [self.folder / name for name in names]
        stray = {path.name for path in self.folder.glob("*.patch")} ^ set(names)
        if stray or len(set(names)) != len(names):
            wrong = sorted(stray) or sorted({name for name in names if names.count(name) > 1})
            raise UserError(f"{self.list} and the files beside it differ in {', '.join(wrong)}", "fix the list")
        return paths

    def digest(self) -> str:
        total = hashlib.sha256()
        for path in self.patches():
            total.update(f"{path.name}\n".encode() + path.read_bytes())
        return total.hexdigest()

    def replace(self, made: Path) -> list[str]:
        """Take over freshly written patches and return a line for each file that came or went.

        A patch keeps the file name of the one with its subject, so inserting one renames no other.
        """
        names: dict[str, list[str]] = {}
        for path in self.patches():
            names.setdefault(subject(path), []).append(path.name)
        fresh = sorted(made.glob("*.patch"))
        kept = [names[title].pop(0) if names.get(title) else "" for title in map(subject, fresh)]
        changes: list[str] = []
        new: dict[str, bytes] = {}
        for path, name in zip(fresh, kept):
            if not name:
                name = unused(slug(subject(path)), {*kept, *new})
                changes.append(f"{name} is new: {subject(path)}")
            new[name] = path.read_bytes()
        for path in sorted(self.folder.glob("*.patch")):
            if path.name not in new:
                title = subject(path)
                path.unlink()
                changes.append(f"{path.name} was removed, no commit has its subject: {title}")
        for name, content in new.items():
            path = self.folder / name
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)
        head = [line for line in self.lines() if line.startswith("#")]
        self.list.write_text("".join(f"{line}\n" for line in [*head, *new]))
        return changes


class Tree:
    """A git repository: the tag `base` is the pristine source, every later commit a patch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *arguments: str, where: Path | None = None) -> str:
        """Run git without the user's and the system's settings, hooks and signing keys."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        env.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_SYSTEM=os.devnull, GIT_CONFIG_NOSYSTEM="1", LC_ALL="C")
        for role in ("AUTHOR", "COMMITTER"):
            env.update({f"GIT_{role}_NAME": PROJECT[0], f"GIT_{role}_EMAIL": PROJECT[1]})
        if "commit" in arguments:
            # The one commit made here is the base: with a fixed date the same series has the same commit ids.
            env.update(GIT_AUTHOR_DATE=BASE_DATE, GIT_COMMITTER_DATE=BASE_DATE)
        done = subprocess.run(
            ["git", *arguments], cwd=where or self.folder, env=env, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise subprocess.CalledProcessError(done.returncode, done.args, done.stdout, done.stderr)
        return done.stdout.strip()

    @property
    def exists(self) -> bool:
        return (self.folder / ".git").is_dir()

    def note(self, name: str, text: str | None = None) -> str:
        """Store a note about the tree inside it, or read it back."""
        path = self.folder / ".git" / f"kernel-thp-{name}"
        if text is not None:
            path.write_text(text)
        return path.read_text() if path.exists() else ""

    def create(self, tarball: Path, digest: str) -> None:
        """Unpack and commit the pristine source; the name appears when it is complete."""
        part = self.folder.with_name(f"{self.folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        subprocess.run(["tar", "-x", "--strip-components=1", "-C", str(part), "-f", str(tarball)], check=True)
        self.git("init", "--quiet", "--template=", "--initial-branch=thp", where=part)
        for key, value in {"gc.auto": "0", "user.name": PROJECT[0], "user.email": PROJECT[1]}.items():
            self.git("config", key, value, where=part)
        self.git("add", "--all", "--force", where=part)
        title = tarball.name.replace(".tar.xz", "").replace("-", " ").capitalize()
        self.git("commit", "--quiet", "--no-verify", f"--message={title}", where=part)
        self.git("tag", "base", where=part)
        (part / ".git" / "kernel-thp-base").write_text(digest)
        part.replace(self.folder)

    def worktree(self, folder: Path, commit: str) -> None:
        """Put a commit into a further working tree, where files that do not differ keep their time of change."""
        if folder.exists():
            try:
                self.git("checkout", "--quiet", "--force", "--detach", commit, where=folder)
                return
            except subprocess.CalledProcessError:
                shutil.rmtree(folder)  # it belonged to a tree that is gone
        self.git("worktree", "prune")
        self.git("worktree", "add", "--quiet", "--detach", "--force", str(folder), commit)

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def guard(self) -> None:
        """Refuse to go on over work that is nowhere else."""
        if (self.folder / ".git" / "rebase-apply").exists() or (self.folder / ".git" / "rebase-merge").exists():
            raise UserError(f"a rebase is unfinished in {self.folder}", "finish or abort it with git")
        dirty = self.git("status", "--porcelain").splitlines()
        if dirty:
            what = dirty[0].split(maxsplit=1)[1]
            raise UserError(f"{self.folder} has uncommitted work: {what}", "commit it and `make refresh`, or undo it")

    def unrefreshed(self) -> bool:
        return self.head() != (self.note("head") or self.git("rev-parse", "base"))

    def apply(self, patches: list[Path], done: int = 0) -> None:
        """Make one commit of every patch behind those that are there. git am allows an offset and never fuzz."""
        if not done:
            self.git("reset", "--quiet", "--hard", "base")
        for number, patch in enumerate(patches[done:], done + 1):
            try:
                self.git(*AM, str(patch.resolve()))
            except subprocess.CalledProcessError as error:
                self.git("am", "--abort")
                if not done:
                    # Whatever is committed from here on is work that is nowhere else.
                    self.note("head", self.head())
                    self.note("series", "incomplete")
                reason = next((line for line in error.stderr.splitlines() if line.startswith("error:")), error.stderr)
                raise UserError(
                    f"patch {number} of {len(patches)}, {patch.name}, does not apply without fuzz ({reason.strip()})",
                    f"in {self.folder}, which holds the patches before it, run `git am --reject {patch.resolve()}`;"
                    " do what the .rej files say and delete them; run `git add --all --force` and `git am --continue`;"
                    " then run this again",
                ) from error

    def settle(self, series: Series) -> None:
        self.note("head", self.head())
        self.note("series", series.digest())


def place(source: Source) -> tuple[Series, Tree]:
    return Series(ROOT / "patches" / source.series), Tree(BUILD / "tree" / source.series)


def build_tree(series: Series, tree: Tree, source: Source) -> None:
    patches = series.patches()
    if tree.exists:
        tree.guard()
        if tree.unrefreshed():
            if tree.note("series") != "incomplete" or tree.note("base") != source.sha256:
                raise UserError(
                    f"{tree.folder} has commits that are not in {series.folder}",
                    "run `make refresh` to write them there, or delete the tree",
                )
            go_on(patches, tree)
            return
        if tree.note("base") != source.sha256:
            shutil.rmtree(tree.folder)
        elif tree.note("series") == series.digest():
            say(f"tree: {tree.folder} is up to date, {len(patches)} patches on {source.version}")
            return
    if not tree.exists:
        with step(f"unpack and commit {source.path.name}"):
            tree.create(source.path, source.sha256)
    with step(f"apply {len(patches)} patches"):
        tree.apply(patches)
    tree.settle(series)


def go_on(patches: list[Path], tree: Tree) -> None:
    """Apply the patches behind the one that was applied by hand. Until `make refresh`, the tree alone has that."""
    titles = tree.git("log", "--reverse", "--format=%s", "base..HEAD").splitlines()
    for number, (title, patch) in enumerate(zip(titles, patches), 1):
        if title != subject(patch):
            raise UserError(
                f"commit {number} in {tree.folder} is {title!r}, patch {number} of the series {subject(patch)!r}",
                "have one commit for each patch, with its subject, in the order of the series; then run this again",
            )
    with step(f"apply the patches behind number {len(titles)}"):
        tree.apply(patches, len(titles))
    say(f"tree: {len(patches)} patches are applied; `make refresh` writes back what was changed by hand")


def write_back(series: Series, tree: Tree) -> None:
    if not tree.exists:
        raise UserError(f"there is no tree at {tree.folder}", "run `make tree` first")
    tree.guard()
    if tree.note("series") not in ("", "incomplete", series.digest()):
        raise UserError(
            f"the patches in {series.folder} were changed after the tree was made from them",
            "undo one of the two changes: `git checkout` the patches, or delete the tree",
        )
    if tree.note("series") == "incomplete" and len(commits(tree)) < len(series.patches()):
        raise UserError(
            f"the tree has {len(commits(tree))} commits, the series {len(series.patches())} patches",
            "apply the others in the tree first, or take them out of the series",
        )
    with tempfile.TemporaryDirectory(dir=series.folder, prefix=".refresh-") as made:
        tree.git(*FORMAT, f"--output-directory={made}", "base..HEAD")
        changes = series.replace(Path(made))
    for change in changes:
        say(f"refresh: {change}")
    tree.settle(series)


def commits(tree: Tree) -> list[str]:
    return tree.git("rev-list", "base..HEAD").splitlines()


def subject(patch: Path) -> str:
    """Return a patch's subject on one line."""
    text = patch.read_text()
    found = re.search(r"^Subject: (.*(?:\n[ \t].*)*)", text, re.MULTILINE)
    return re.sub(r"\s+", " ", found[1]) if found else patch.stem


def slug(title: str) -> str:
    """Make a file name from a subject: its words without the subsystem, as many as fit."""
    words = re.findall(r"[a-z0-9]+", SUBSYSTEM.sub("", title).lower())
    name = "-".join(words)[: SLUG_LIMIT + 1]
    return (name.rpartition("-")[0] or name[:SLUG_LIMIT] if len(name) > SLUG_LIMIT else name) or "patch"


def unused(name: str, taken: Collection[str]) -> str:
    """Return the name of a patch file that no other has."""
    tries = (f"{name}-{number}" if number > 1 else name for number in itertools.count(1))
    return next(f"{attempt}.patch" for attempt in tries if f"{attempt}.patch" not in taken)


def spec_lines(series: Series) -> str:
    """Return the Patch lines of the spec, each under its subject. Their numbers are rpm's tags and name no patch."""
    return "".join(
        f"# {subject(patch)}\nPatch{number}:{' ' * (10 - len(str(number)))}{patch.name}\n"
        for number, patch in enumerate(series.patches(), 1)
    )


def update_spec(series: Series, spec: Path) -> None:
    old = spec.read_text()
    new = SPEC_BLOCK.sub(lambda _: spec_lines(series), old)
    if new != old:
        files.replace(spec, new)
        say(f"refresh: the Patch lines of {spec.name} follow the series")


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["tree", "refresh"])
    action = parser.parse_args().action
    source = lock.used()
    series, tree = place(source)
    if action == "tree":
        build_tree(series, tree, source)
    else:
        write_back(series, tree)
        update_spec(series, SPEC)
        say(f"refresh: {len(series.patches())} patches in {series.folder}")


if __name__ == "__main__":
    main(command)
