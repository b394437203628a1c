"""The key that signs packages and repository: made on first use, without a passphrase, in a separate keyring."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from scripts.console import BUILD, UserError, say

HOME = BUILD / "gnupg"
OWNER = "kernel-thp package signing <kernel-thp@example.org>"


def _run(command: Sequence[str], home: Path) -> str:
    env = {**os.environ, "GNUPGHOME": str(home), "LC_ALL": "C"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise UserError(
            f"{command[0]} failed: {''.join(reason)}",
            f"check the keyring in {home}; if you delete it, the next build makes a new key",
        )
    return done.stdout


@contextmanager
def keyring(home: Path = HOME) -> Iterator[Path]:
    """Yield the keyring with its key in it, and stop the agent afterwards."""
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    try:
        if "sec:" not in _run(["gpg", "--batch", "--with-colons", "--list-secret-keys"], home):
            say(f"make a package signing key in {home}")
            # RSA, because rpm before 4.16 cannot check anything newer.
            key = ["--passphrase", "", "--quick-generate-key", OWNER, "rsa3072", "sign", "never"]
            _run(["gpg", "--batch", "--pinentry-mode", "loopback", *key], home)
        yield home
    finally:
        _run(["gpgconf", "--kill", "all"], home)


def sign_packages(home: Path, packages: Sequence[Path]) -> None:
    macros = {"_gpg_path": home, "_gpg_name": OWNER, "_gpg_digest_algo": "sha256", "__gpg": shutil.which("gpg")}
    defines = [f"--define={name} {value}" for name, value in macros.items()]
    _run(["rpmsign", *defines, "--addsign", *map(str, packages)], home)


def sign_file(home: Path, path: Path) -> None:
    """Put an armoured signature beside a file, for dnf's repo_gpgcheck."""
    _run(["gpg", "--batch", "--yes", "--armor", "--detach-sign", "--local-user", OWNER, str(path)], home)


def export(home: Path, path: Path) -> None:
    path.write_text(_run(["gpg", "--batch", "--armor", "--export", OWNER], home))
