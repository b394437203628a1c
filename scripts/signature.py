"""Who signed a tarball of kernel.org. The signature there covers the uncompressed tar."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.console import ROOT, UserError

KEYS = ROOT / "SOURCES" / "keys"
# Who releases stable kernels. A key below SOURCES/keys/ that is not one of these counts for nothing.
SIGNERS = {
    "647F28654894E3BD457199BE38DBBDC86092693E": "Greg Kroah-Hartman",
    "E27E5D8A3403A2EF66873BBCDEA66FF797772CDC": "Sasha Levin",
}
DISTRUST = "do not use the file; try again, and if that does not help find out who changed it"


def gpg(home: str, *arguments: str) -> list[str]:
    return ["gpg", "--homedir", home, "--batch", "--no-autostart", "--quiet", *arguments]


def names(status: str) -> Sequence[str]:
    """Return the fingerprints of the primary keys behind the good signatures that gpg reports."""
    lines = [line.split() for line in status.splitlines() if line.startswith("[GNUPG:] ")]
    # GOODSIG is left out for a key that has expired or was revoked; the last word of VALIDSIG is the primary key.
    good = any(words[1] == "GOODSIG" for words in lines)
    return [words[-1] for words in lines if words[1] == "VALIDSIG"] if good else []


def check(tarball: Path, signature: Path, keys: Path = KEYS, signers: Mapping[str, str] | None = None) -> str:
    """Return who of the pinned signers signed what is inside an .xz file; anything else is an error."""
    trusted = SIGNERS if signers is None else signers
    armoured = sorted(keys.glob("*.asc"))
    if not armoured:
        raise UserError(f"there is no key in {keys}", "`git checkout` it")
    with tempfile.TemporaryDirectory() as home:
        imported = subprocess.run(gpg(home, "--import", *map(str, armoured)), capture_output=True, text=True)
        if imported.returncode != 0:
            raise UserError(f"gpg cannot read {keys}: {imported.stderr.strip()}", "`git checkout` it")
        verify = gpg(home, "--trust-model", "always", "--status-fd", "1", "--verify", str(signature), "-")
        with subprocess.Popen(["xz", "-dc", str(tarball)], stdout=subprocess.PIPE) as content:
            verified = subprocess.run(verify, stdin=content.stdout, capture_output=True, text=True)
            if content.stdout:
                content.stdout.close()
        found = names(verified.stdout)
        if verified.returncode != 0 or content.returncode != 0 or not found:
            reason = (verified.stderr.strip().splitlines() or ["it cannot be unpacked"])[-1]
            raise UserError(f"the signature of {tarball.name} is not good: {reason}", DISTRUST)
    if len(found) != 1 or found[0] not in trusted:
        raise UserError(f"{tarball.name} is signed by {', '.join(found)}, no key of a stable release", DISTRUST)
    return trusted[found[0]]
