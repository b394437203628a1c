"""The key that signs the kernel: made once, brought as a file or in a token, refused where nothing would boot."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import secure_boot, signing
from scripts.console import ROOT, UserError
from scripts.secure_boot import Signer

PIN = "1234"


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build directory without keys."""
    for module in (secure_boot, signing):
        monkeypatch.setattr(module, "BUILD", tmp_path)
    monkeypatch.setattr(secure_boot, "FOLDER", tmp_path / "secure-boot")
    monkeypatch.delenv("SIGN_KEY", raising=False)
    monkeypatch.delenv("SIGN_CERT", raising=False)
    return tmp_path


def give(monkeypatch: pytest.MonkeyPatch, signer: Signer) -> None:
    monkeypatch.setenv("SIGN_KEY", signer.key)
    monkeypatch.setenv("SIGN_CERT", str(signer.certificate))


def pair(folder: Path, *options: str) -> Signer:
    """Make a key and a certificate as a user would."""
    folder.mkdir()
    found = Signer(str(folder / "key.pem"), folder / "cert.pem")
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=user", *options]
    subprocess.run([*new, "-keyout", found.key, "-out", str(found.certificate)], check=True, capture_output=True)
    return found


def test_key_of_ours_is_made_once_for_signing_code_and_expires(build: Path) -> None:
    first = secure_boot.signer()
    assert secure_boot.signer().der() == first.der()
    assert Path(first.key).stat().st_mode & 0o077 == 0
    assert first.certificate.parent.stat().st_mode & 0o077 == 0
    text = secure_boot.openssl(["x509", "-in", str(first.certificate), "-noout", "-text"]).stdout
    assert "Code Signing" in text
    assert "CA:FALSE" in text
    years = 5 * 365 * 24 * 3600
    for seconds, code in ((years - 3600, 0), (years + 48 * 3600, 1)):
        assert (
            secure_boot.openssl(["x509", "-in", str(first.certificate), "-checkend", str(seconds)]).returncode == code
        )


@pytest.mark.parametrize("where", ["repo", "repo-server", "release"])
def test_key_that_is_gone_is_not_made_a_second_time(build: Path, where: str) -> None:
    (build / where).mkdir()
    (build / where / secure_boot.CERTIFICATE_NAME).write_bytes(b"certificate")
    with pytest.raises(UserError, match=rf"is not there, but .*{where}; restore the key .* SIGN_KEY and SIGN_CERT"):
        secure_boot.signer()
    assert not (build / "secure-boot").exists()


def test_half_of_a_pair_is_not_replaced(build: Path) -> None:
    found = secure_boot.signer()
    Path(found.key).unlink()
    with pytest.raises(UserError, match="is not there, but"):
        secure_boot.signer()
    assert found.certificate.exists()


@pytest.mark.parametrize("missing", ["SIGN_KEY", "SIGN_CERT"])
def test_one_without_the_other_is_refused(build: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    give(monkeypatch, pair(build / "user", "-addext", "extendedKeyUsage=codeSigning"))
    monkeypatch.delenv(missing)
    with pytest.raises(UserError, match="belong together"):
        secure_boot.signer()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-days", "-1"], "has expired"),
        (["-addext", "extendedKeyUsage=serverAuth"], "is not for signing code"),
    ],
)
def test_certificate_by_which_nothing_boots_is_refused(
    build: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    found = pair(build / "user")
    with_options = ["openssl", "x509", "-in", str(found.certificate), "-signkey", found.key, "-out"]
    if options[0] == "-days":
        # openssl req refuses to make what has expired already; x509 does not.
        subprocess.run([*with_options, str(found.certificate), *options], check=True, capture_output=True)
    else:
        found = pair(build / "other", *options)
    give(monkeypatch, found)
    with pytest.raises(UserError, match=message):
        secure_boot.signer()


def test_key_of_another_certificate_is_refused(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = pair(build / "one"), pair(build / "other")
    give(monkeypatch, Signer(one.key, other.certificate))
    with pytest.raises(UserError, match="is not the certificate of the Secure Boot key"):
        secure_boot.signer()


def test_key_with_a_passphrase_is_refused_at_once(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = pair(build / "user")
    locked = build / "locked.pem"
    command = ["openssl", "pkey", "-in", found.key, "-aes256", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(command, check=True)
    give(monkeypatch, Signer(str(locked), found.certificate))
    with pytest.raises(UserError, match=r"cannot be read: .*; give a PEM file without a passphrase"):
        secure_boot.signer()


def expanded(signer: Signer) -> dict[str, str]:
    """Return what the macros of the spec are worth."""
    names = ("sign_key", "sign_cert", "sign_engine")
    form = "".join(f"%{{?{name}}}\n" for name in names)
    command = ["rpm", *signer.rpmbuild, "--eval", form]
    return dict(zip(names, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")))


def test_percent_signs_are_not_taken_for_macros() -> None:
    """These would be a directive and a macro of rpm."""
    signer = Signer("pkcs11:token=%define", Path("/keys/%{_host}/cert.pem"))
    assert expanded(signer) == {"sign_key": signer.key, "sign_cert": str(signer.certificate), "sign_engine": "pkcs11"}


@pytest.fixture
def token(build: Path, monkeypatch: pytest.MonkeyPatch) -> Signer:
    """A key in a token, whose name has a space, which is a percent sign in a URI."""
    found = pair(build / "user", "-addext", "extendedKeyUsage=codeSigning")
    (build / "tokens").mkdir()
    (build / "softhsm.conf").write_text(f"directories.tokendir = {build}/tokens\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(build / "softhsm.conf"))
    named = ["--token", "kernel thp", "--pin", PIN]
    for command in (
        ["--init-token", "--free", "--label", "kernel thp", "--pin", PIN, "--so-pin", PIN],
        ["--import", found.key, *named, "--id", "01", "--label", "boot"],
    ):
        subprocess.run(["softhsm2-util", *command], check=True, capture_output=True)
    Path(found.key).unlink()
    (module,) = {*Path("/usr/lib").glob("*/softhsm/libsofthsm2.so"), *Path("/usr/lib64").glob("*/libsofthsm2.so")}
    monkeypatch.setenv("PKCS11_MODULE_PATH", str(module))
    return Signer(f"pkcs11:token=kernel%20thp;object=boot;type=private?pin-value={PIN}", found.certificate)


def test_key_in_a_token_signs_a_kernel_as_the_spec_does(
    build: Path, token: Signer, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, token)
    found = secure_boot.signer()
    macros = expanded(found)
    assert macros == {"sign_key": token.key, "sign_cert": str(token.certificate), "sign_engine": "pkcs11"}
    (build / "image.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-c", "-ffreestanding", "image.c"], cwd=build, check=True)
    image = build / "image.efi"
    for_firmware = ["ld", "-m", "i386pep", "--subsystem", "10", "-e", "main", "-o", str(image), str(build / "image.o")]
    subprocess.run(for_firmware, check=True)
    command = ["sbsign", "--engine", macros["sign_engine"], "--key", macros["sign_key"], "--cert", macros["sign_cert"]]
    signed = build / "signed"
    subprocess.run([*command, "--output", str(signed), str(image)], check=True, capture_output=True)
    subprocess.run(["sbverify", "--cert", str(token.certificate), str(signed)], check=True, capture_output=True)


def test_spec_signs_with_what_is_given_and_asks_for_both() -> None:
    spec = str(ROOT / "SPECS" / "kernel-thp.spec")
    signer = Signer("pkcs11:token=kernel%20thp", Path("/cert.pem"))
    text = subprocess.run(["rpmspec", "-P", *signer.rpmbuild, spec], capture_output=True, text=True, check=True).stdout
    assert "sbsign --engine pkcs11 --key 'pkcs11:token=kernel%20thp' --cert '/cert.pem'" in text
    assert "sbsign" not in subprocess.run(["rpmspec", "-P", spec], capture_output=True, text=True, check=True).stdout
    command = ["rpmspec", "-P", "--define=sign_key key", spec]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "sign_key without sign_cert" in done.stderr
