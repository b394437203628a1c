"""The key that signs packages and repository.

It is the one that GPG_KEY names in the user's own keyring, or one of ours, made on first use, without a passphrase, in
a separate keyring. A key of ours is made once: where a repository was signed already, it is not made a second time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from scripts import files
from scripts.console import BUILD, UserError, say

HOME = BUILD / "gnupg"
OWNER = "kernel-thp package signing <kernel-thp@example.org>"
KEY_NAME = "RPM-GPG-KEY-kernel-thp"
VALID = "5y"
# How often gpg is asked: under load it once failed right after its agent had been stopped.
TRIES, PAUSE = 3, 1.0


def _gpg(command: Sequence[str], home: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "GNUPGHOME": str(home), "LC_ALL": "C"}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def _failed(done: subprocess.CompletedProcess[str], home: Path) -> UserError:
    reason = (done.stderr or done.stdout).strip().splitlines()[-1:]
    return UserError(f"{done.args[0]} failed: {''.join(reason)}", f"check the keyring in {home}")


def _run(command: Sequence[str], home: Path) -> str:
    done = _gpg(command, home)
    if done.returncode != 0:
        raise _failed(done, home)
    return done.stdout


def _named() -> tuple[Path, str] | None:
    """Return the user's keyring and the key that GPG_KEY names in it."""
    name = os.environ.get("GPG_KEY")
    return (Path(os.environ.get("GNUPGHOME") or "~/.gnupg").expanduser(), name) if name else None


def _secret_keys(home: Path) -> list[list[str]]:
    """Return gpg's lines about the secret key that is to be used, split into fields; none if there is no such key."""
    named = _named()
    wanted = [named[1]] if named and named[0] == home else []
    command = ["gpg", "--batch", "--with-colons", "--list-secret-keys", *wanted]
    # gpg fails by one code for a name that it does not know, which the caller reports, and for an agent out of reach.
    for _ in range(TRIES):
        done = _gpg(command, home)
        if wanted or done.returncode == 0:
            return [line.split(":") for line in done.stdout.splitlines()]
        time.sleep(PAUSE)
    raise _failed(done, home)


def fingerprint(home: Path) -> str:
    """Return the fingerprint of the key in a keyring; one that has expired or was revoked is an error."""
    lines = _secret_keys(home)
    key = next((fields for fields in lines if fields[0] == "sec"), None)
    if key is None:
        raise UserError(
            f"{home} has no secret key {os.environ.get('GPG_KEY', '')}".rstrip(), "see `gpg -K`, or unset GPG_KEY"
        )
    found = next(fields[9] for fields in lines if fields[0] == "fpr")
    if key[1] in ("e", "r"):
        state = {"e": "has expired", "r": "was revoked"}[key[1]]
        hint = f"lengthen it with `gpg --homedir {home} --quick-set-expire {found} {VALID}`, or use another key"
        raise UserError(f"the signing key {found} {state}", hint)
    return found


@contextmanager
def keyring(given: Path | None = None) -> Iterator[Path]:
    """Yield a keyring, that of this build unless one is given, with its key in it.

    Its agent is stopped afterwards, unless the keyring is the user's own.
    """
    named, home = _named(), given or HOME
    if named and given is None:
        fingerprint(named[0])
        yield named[0]
        return
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o700)
    try:
        if not _secret_keys(home):
            if given is None:
                refuse_second(BUILD.glob(f"*/{KEY_NAME}"), f"the package signing key in {HOME}", "GPG_KEY")
            say(
                f"make a package signing key in {home}, valid for {VALID}: back it up, hosts trust packages by this one"
            )
            # RSA, because rpm before 4.16 cannot check anything newer.
            key = ["--passphrase", "", "--quick-generate-key", OWNER, "rsa3072", "sign", VALID]
            _run(["gpg", "--batch", "--pinentry-mode", "loopback", *key], home)
        yield home
    finally:
        _run(["gpgconf", "--kill", "all"], home)


def refuse_second(public: Iterator[Path], what: str, option: str) -> None:
    """Stop if repositories show that there was a key: hosts would refuse what another one signs."""
    repositories = sorted(str(path.parent) for path in public)
    if repositories:
        raise UserError(
            f"{what} is not there, but there is what was made with a key, in {', '.join(repositories)}",
            f"restore the key from your backup, or name a key of yours by {option}; for a new key, which every host has"
            f" to be told of, delete {' '.join(repositories)}",
        )


def sign_packages(home: Path, packages: Sequence[Path]) -> None:
    name = fingerprint(home)
    macros = {"_gpg_path": home, "_gpg_name": name, "_gpg_digest_algo": "sha256", "__gpg": shutil.which("gpg")}
    defines = [f"--define={name} {value}" for name, value in macros.items()]
    _run(["rpmsign", *defines, "--addsign", *map(str, packages)], home)


def sign_file(home: Path, path: Path) -> None:
    """Put an armoured signature beside a file, for dnf's repo_gpgcheck."""
    name = fingerprint(home)
    _run(["gpg", "--batch", "--yes", "--armor", "--detach-sign", "--local-user", name, str(path)], home)


def public_key(home: Path) -> str:
    return _run(["gpg", "--batch", "--armor", "--export", fingerprint(home)], home)


def export(home: Path, path: Path) -> None:
    files.replace(path, public_key(home))
