"""Keys: one that is brought, one that has expired, and one that is gone, which is not made a second time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import signing
from scripts.console import UserError


def gpg(home: Path, *options: str) -> str:
    home.mkdir(mode=0o700, exist_ok=True)
    command = ["gpg", "--batch", "--homedir", str(home), "--pinentry-mode", "loopback", "--passphrase", "", *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def build(short: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build directory without keys."""
    monkeypatch.setattr(signing, "BUILD", short)
    monkeypatch.setattr(signing, "HOME", short / "gnupg")
    monkeypatch.delenv("GPG_KEY", raising=False)
    return short


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a short path, because the path of the agent's socket has to be."""
    return tmp_path_factory.mktemp("k")


def test_key_of_ours_expires_and_is_used_again(build: Path) -> None:
    with signing.keyring() as home:
        first = signing.fingerprint(home)
        lines = gpg(home, "--with-colons", "--list-secret-keys").splitlines()
        assert next(line for line in lines if line.startswith("sec:")).split(":")[6].isdecimal()
    with signing.keyring() as home:
        assert signing.fingerprint(home) == first


AGENT = """#!/bin/sh
[ $(echo >> {calls}; wc -l < {calls}) -gt {failures} ] || exit 1
exec gpg-agent "$@"
"""


@pytest.mark.parametrize("failures", [1, 1000])
def test_agent_that_does_not_answer_is_no_reason_for_another_key(
    build: Path, failures: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signing, "PAUSE", 0.1)
    with signing.keyring() as home:
        first = signing.fingerprint(home)
    capsys.readouterr()
    agent = build / "agent"
    agent.write_text(AGENT.format(calls=build / "calls", failures=failures))
    agent.chmod(0o755)
    (home / "gpg.conf").write_text(f"agent-program {agent}\n")
    if failures < signing.TRIES:
        with signing.keyring():
            assert signing.fingerprint(home) == first
    else:
        with pytest.raises(UserError, match=r"gpg failed: .*agent"), signing.keyring():
            pass
    assert "make a package signing key" not in capsys.readouterr().out


def test_key_that_is_gone_is_not_made_a_second_time(build: Path) -> None:
    (build / "repo").mkdir()
    (build / "repo" / signing.KEY_NAME).write_text("public")
    gone = r"is not there, but .*repo; restore the key .* by GPG_KEY; .* delete .*repo"
    with pytest.raises(UserError, match=gone), signing.keyring():
        pass
    assert "sec:" not in gpg(build / "gnupg", "--with-colons", "--list-secret-keys")


def test_key_of_the_users_own_signs(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = build / "own"
    for name in ("somebody@example.org", "else@example.org"):
        gpg(own, "--quick-generate-key", name, "rsa3072", "sign", "1y")
    monkeypatch.setenv("GNUPGHOME", str(own))
    monkeypatch.setenv("GPG_KEY", "else@example.org")
    signed = build / "file"
    signed.write_text("content")
    with signing.keyring() as home:
        signing.sign_file(home, signed)
        signing.export(home, build / "key")
    gpg(build / "other", "--import", str(build / "key"))
    assert "else@example.org" in gpg(build / "other", "--list-keys")
    gpg(build / "other", "--verify", f"{signed}.asc", str(signed))
    assert not (build / "gnupg").exists()
    subprocess.run(["gpgconf", "--homedir", str(own), "--kill", "all"], check=True)


def test_key_that_does_not_exist_is_named(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNUPGHOME", str(build / "own"))
    monkeypatch.setenv("GPG_KEY", "nobody@example.org")
    unknown = r"own has no secret key nobody@example.org; see `gpg -K`"
    with pytest.raises(UserError, match=unknown), signing.keyring():
        pass


def test_expired_key_is_refused(build: Path) -> None:
    home = build / "gnupg"
    gpg(home, "--faked-system-time", "20200101T000000", "--quick-generate-key", signing.OWNER, "rsa3072", "sign", "1d")
    expired = r"has expired; lengthen it with `gpg .*--quick-set-expire"
    with pytest.raises(UserError, match=expired), signing.keyring() as found:
        signing.sign_file(found, build / "file")
