"""Set the repository up on a host: its file, and its key, of which the operator gives the fingerprint."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import URLError

from ansible.module_utils.urls import open_url
from ansible_collections.kernel_thp.fleet.plugins.module_utils import command, files
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem, without_passwords

ROOT = Path("/")
FOLDER, KEYS = Path("etc/yum.repos.d"), Path("etc/pki/rpm-gpg")
ARMOR = "-----BEGIN PGP PUBLIC KEY BLOCK-----"
SAFE = ("https://", "file:///")
# All of a key, in the short form that rpm has used up to version 5, or in full.
FINGERPRINT = re.compile(r"[0-9A-F]{40}|[0-9A-F]{64}")
PASSWORD = re.compile(r"^(\w*password\s*=\s*).+", re.MULTILINE)
TEXT = """\
# By the fleet rollout of kernel-thp (thp_preflight_repository_url).
[{name}]
name=kernel-thp
baseurl={url}
enabled=1
gpgcheck=1
repo_gpgcheck={check_metadata:d}
gpgkey=file://{key}
"""


# As Ansible shows it with --diff.
Difference = dict[str, str]


@dataclass(frozen=True)
class Wanted:
    """`key` is the key itself, or the address where the host gets it."""

    name: str
    url: str
    key: str
    fingerprint: str
    check_metadata: bool


def checked_key(wanted: Wanted) -> str:
    """Return the key, if it is the one with this fingerprint and there is no other beside it."""
    for option, value in (("url", wanted.url), ("key", wanted.key)):
        if not value.startswith((*SAFE, ARMOR) if option == "key" else SAFE):
            what = f"thp_preflight_repository_{option} is {value!r}, which anybody on the way could replace"
            raise Problem(what, f"give an address that begins with {' or '.join(SAFE)}")
    fingerprint = wanted.fingerprint.replace(" ", "").upper()
    if not FINGERPRINT.fullmatch(fingerprint):
        what = f"thp_preflight_repository_fingerprint is {wanted.fingerprint!r}, which is no fingerprint of a key"
        raise Problem(what, "give all of its 40 or 64 digits, as gpg --show-keys prints them")
    key = wanted.key if wanted.key.startswith(ARMOR) else _fetched(wanted.key)
    found = _fingerprints(key)
    if found != [fingerprint]:
        what = f"the repository's key has the fingerprint {' and '.join(found) or 'of no key'}, not {fingerprint}"
        raise Problem(what, "ask who publishes the repository; do not trust this key until you know why")
    return key


def _fetched(address: str) -> str:
    try:
        return str(open_url(address).read().decode("ascii", errors="replace"))
    except (URLError, OSError) as error:
        raise Problem(f"the repository's key cannot be read from {address}: {error}", "correct the address") from None


def _fingerprints(key: str) -> list[str]:
    """Return the fingerprint of each primary key."""
    with TemporaryDirectory(prefix="kernel-thp-") as home:
        path = Path(home) / "key"
        path.write_text(key)
        words = ["gpg", "--homedir", home, "--batch", "--with-colons", "--show-keys", str(path)]
        listed = command.output(words, hint="have gpg, of the package gnupg2, and a key in ASCII armour")
    fields = [line.split(":") for line in listed.splitlines()]
    return [after[9] for before, after in zip(fields, fields[1:]) if before[0] == "pub" and after[0] == "fpr"]


def repo_file(wanted: Wanted) -> str:
    return TEXT.format(name=wanted.name, url=wanted.url, key=f"/{_key(wanted)}", check_metadata=wanted.check_metadata)


def _key(wanted: Wanted) -> Path:
    return KEYS / f"RPM-GPG-KEY-{wanted.name}"


def make(wanted: Wanted, key: str, check: bool, root: Path | None = None) -> list[Difference]:
    """Write file and key, and have rpm trust the key, unless this is check mode; return what that changes."""
    root = root or ROOT
    ours = root / FOLDER / f"{wanted.name}.repo"
    for path in sorted((root / FOLDER).glob("*.repo")):
        if path != ours and f"[{wanted.name}]" in (files.text(path) or "").split():
            what = f"{path} has a repository [{wanted.name}] already"
            raise Problem(what, "remove it there, or leave thp_preflight_repository_url empty to use that one")
    content = {root / _key(wanted): key, ours: repo_file(wanted)}
    old = {path: files.text(path) for path in content}
    changed = [_difference(str(path), old[path] or "", text) for path, text in content.items() if old[path] != text]
    imported = _imported(wanted.fingerprint)
    if not imported:
        changed.append(_difference("keys of rpm", "", f"{wanted.fingerprint}\n"))
    if not check:
        for path, text in content.items():
            files.put(path, text, mode=0o644 if _without_secrets(text) == text else 0o600)
        if not imported:
            command.output(["rpm", "--import", str(root / _key(wanted))], hint="see what rpm dislikes about the key")
    return changed


def _difference(what: str, before: str, after: str) -> Difference:
    shown = {"before": _without_secrets(before), "after": _without_secrets(after)}
    return {"before_header": what, "after_header": what, **shown}


def _without_secrets(text: str) -> str:
    """Return a file without its passwords: Ansible prints and logs what it gets."""
    return PASSWORD.sub(r"\1...", without_passwords(text))


def _imported(fingerprint: str) -> bool:
    """Say whether rpm has the key; it names keys by the end of the fingerprint, or by all of it."""
    done = command.run(["rpm", "-q", "gpg-pubkey", "--qf", "%{version}\\n"])
    full = fingerprint.replace(" ", "").lower()
    return done.code == 0 and any(full.endswith(version) for version in done.out.split())
