"""The signed dnf repository: the packages, and beside them what they are made of and who built them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scripts import lock, provenance, sbom, secure_boot, series, signing
from scripts.console import ROOT, UserError, say, step

if TYPE_CHECKING:
    from scripts.rpms import Stage

SUMS = "SHA256SUMS"


def publish(built: Sequence[Stage], repo: Path) -> None:
    """Make the repository unless it is that of the present packages."""
    wanted = "".join(f"{stage.stamp.read_text()}\n" for stage in built)
    stamp = repo / ".inputs"
    if stamp.exists() and stamp.read_text() == wanted:
        say(f"repository: {repo} is up to date")
        return
    packages = [path for stage in built for path in stage.packages]
    say_unnoticed(packages, repo)
    with step("sign the packages, make the repository"):
        make(packages, repo, wanted, built)


def refuse_older(planned: Mapping[str, str], repo: Path) -> None:
    """Stop before anything is built if it would be older than what hosts may have from the repository.

    `planned` has version and release by the name of the source package.
    """
    for path in sorted(repo.glob("*.rpm")):
        ((source, _),) = (header.rsplit(".src.rpm", 1) for header in sbom.header(path, "%{SOURCERPM}\n"))
        name, version, release = source.rsplit("-", 2)
        new = planned.get(name)
        if new and newer(f"{version}-{release}", new):
            what = (
                f"{repo} has {name} {version}-{release}, and this would be {new}, which no host would take in its place"
            )
            raise UserError(what, f"give a higher SPIN, or delete {repo} if no host has packages from it")


def say_unnoticed(packages: Sequence[Path], repo: Path) -> None:
    """Say which packages changed without a new version or release, be it only in what they require or run."""
    form = "%{NEVRA} %{SHA256HEADER}\n"
    before, after = (
        dict(line.split() for path in paths for line in sbom.header(path, form))
        for paths in (sorted(repo.glob("*.rpm")), packages)
    )
    changed = sorted(name for name in before.keys() & after.keys() if before[name] != after[name])
    if changed:
        say(f"repository: changed under the name of what {repo} had: {', '.join(changed)}")
        say("repository: hosts that have these keep them; give a higher SPIN to reach such hosts")


def newer(one: str, other: str) -> bool:
    """Return whether rpm takes one version and release for newer than another."""
    compare = '%{lua:print(rpm.vercmp("' + one + '", "' + other + '"))}'
    return subprocess.run(["rpm", "--eval", compare], check=True, capture_output=True, text=True).stdout.strip() == "1"


def make(packages: Sequence[Path], repo: Path, inputs: str, built: Sequence[Stage] = ()) -> None:
    """Make a signed repository under another name and put it in place of the old one when it is complete.

    What is known of a build is put beside its packages, with the hashes of all that the index of dnf does not cover.
    """
    part, old = repo.with_suffix(".part"), repo.with_suffix(".old")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    with signing.keyring() as home:
        signing.sign_packages(home, [Path(shutil.copy2(path, part)) for path in packages])
        subprocess.run(["createrepo_c", "--quiet", str(part)], check=True, stdin=subprocess.DEVNULL)
        signing.sign_file(home, part / "repodata" / "repomd.xml")
        signing.export(home, part / signing.KEY_NAME)
        if built:
            sums = "".join(f"{lock.sha256(path)}  {path.relative_to(part)}\n" for path in describe(built, part))
            (part / SUMS).write_text(sums)
            signing.sign_file(home, part / SUMS)
    (part / ".inputs").write_text(inputs)
    shutil.rmtree(old, ignore_errors=True)
    if repo.exists():
        repo.rename(old)
    part.rename(repo)
    shutil.rmtree(old, ignore_errors=True)


def describe(built: Sequence[Stage], repo: Path) -> list[Path]:
    """Write what the signed packages are made of, who built them, and the certificate of the kernels."""
    certificate = repo / secure_boot.CERTIFICATE_NAME
    certificate.write_bytes(secure_boot.signer().der())
    written = [certificate]
    for stage in built:
        packages = [repo / path.name for path in stage.packages]
        source = lock.used() if stage.of_kernel else None
        written += [
            sbom.write(path, repo, source, series.Series(ROOT / "patches" / source.series).patches() if source else [])
            for path in packages
        ]
        written.append(provenance.write(stage.name, json.loads(stage.note.read_text()), packages, repo))
    return written
