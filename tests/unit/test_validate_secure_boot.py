"""Whether Secure Boot would boot an image: real signatures by sbsign and lists by sbsiglist, on recorded trees."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import random
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.test_validate_checks import STOCK, UNAME, collected, wrong
from tools.thp_validate import checks, facts, report, secure_boot, signature
from tools.thp_validate.checks import Check
from tools.thp_validate.system import System

pytestmark = pytest.mark.skipif(not shutil.which("sbsign"), reason="needs sbsign, of the package sbsigntool")

OWNER = "11111111-2222-3333-4444-555555555555"
ATTRIBUTES = b"\x07\0\0\0"
EFIVARS = "sys/firmware/efi/efivars"
ENFORCED = {f"SecureBoot-{secure_boot.GLOBAL}": b"\1", f"SetupMode-{secure_boot.GLOBAL}": b"\0"}
DB, DBX = f"db-{secure_boot.SECURITY}", f"dbx-{secure_boot.SECURITY}"
MOK = f"MokListRT-{secure_boot.SHIM}"


def run(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True, capture_output=True)


def key(folder: Path, name: str, common: str, ca: str = "") -> None:
    """Make a key and its certificate, signed by another one or by itself."""
    new = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/O=Toy/CN={common}", "-keyout"]
    of = ["-CA", folder / f"{ca}.pem", "-CAkey", folder / f"{ca}.key"] if ca else []
    run(*new, folder / f"{name}.key", "-x509", "-days", "2", *of, "-out", folder / f"{name}.pem")
    run("openssl", "x509", "-in", folder / f"{name}.pem", "-outform", "DER", "-out", folder / f"{name}.der")
    run("sbsiglist", "--type", "x509", "--owner", OWNER, "--output", folder / f"{name}.esl", folder / f"{name}.der")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    key(folder, "ours", "kernel-thp")
    key(folder, "namesake", "kernel-thp")
    key(folder, "ca", "Toy CA")
    key(folder, "leaf", "Toy signer", ca="ca")
    key(folder, "ca-namesake", "Toy CA")
    (folder / "plain.efi").write_bytes(program())
    for name in ("ours", "leaf"):
        of = ["--key", folder / f"{name}.key", "--cert", folder / f"{name}.pem"]
        run("sbsign", *of, "--output", folder / f"{name}.efi", folder / "plain.efi")
    return folder


def program() -> bytes:
    """Return the smallest image for UEFI: headers, and one section."""
    optional = struct.pack("<HBBIIIII", 0x20B, 1, 0, 512, 0, 0, 0x1000, 0x1000)
    optional += struct.pack("<QIIHHHHHHIIIIHH", 0x400000, 0x1000, 512, 0, 0, 0, 0, 0, 0, 0, 0x2000, 512, 0, 10, 0)
    optional += struct.pack("<QQQQII", 0, 0, 0, 0, 0, 16) + bytes(16 * 8)
    section = struct.pack("<8sIIIIIIHHI", b".text", 512, 0x1000, 512, 512, 0, 0, 0, 0, 0x60000020)
    coff = struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, len(optional), 0x206)
    start = b"MZ" + bytes(58) + struct.pack("<I", 64)
    return (start + b"PE\0\0" + coff + optional + section).ljust(512, b"\0") + b"\x90" * 512


def host(
    tmp_path: Path,
    variables: dict[str, bytes],
    image: Path | None,
    changes: dict[str, str | None] | None = None,
    certificate: Path | None = None,
) -> Check:
    """Return the check of a host with these variables of the firmware and this kernel."""
    folder = tmp_path / EFIVARS
    folder.mkdir(parents=True)
    for name, value in variables.items():
        (folder / name).write_bytes(ATTRIBUTES + value)
    if image:
        (tmp_path / "lib" / "modules" / UNAME).mkdir(parents=True)
        shutil.copy(image, tmp_path / "lib" / "modules" / UNAME / "vmlinuz")
    if certificate:
        (tmp_path / "usr" / "share" / "kernel-thp-release").mkdir(parents=True)
        shutil.copy(certificate, tmp_path / "usr" / "share" / "kernel-thp-release" / "secure-boot.der")
    found = collected(tmp_path, changes or {})
    assert set(wrong(found)) <= {"secure-boot", *(("kernel-flavour", "shrinker-switch") if changes else ())}
    (check,) = (each for each in checks.evaluate(found) if each.id == "secure-boot")
    return check


def test_a_certificate_without_a_common_name_has_its_fingerprint(tmp_path: Path) -> None:
    new = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-keyout", tmp_path / "key", "-x509", "-outform", "DER"]
    run(*new, "-subj", "/O=Toy", "-out", tmp_path / "der")
    made = signature.certificate((tmp_path / "der").read_bytes())
    assert made.name == f"no common name, SHA-256 {hashlib.sha256(made.der).hexdigest()}"
    broken = dataclasses.replace(made, subject=signature.COMMON_NAME + bytes([12, 99]))
    assert broken.name == made.name


def test_sbverify_agrees_that_it_is_signed(keys: Path) -> None:
    run("sbverify", "--cert", keys / "ours.pem", keys / "ours.efi")
    found = signature.image((keys / "ours.efi").read_bytes())
    assert found.sha256 == signature.image((keys / "plain.efi").read_bytes()).sha256
    (only,) = found.signatures
    assert found.sha256 in only.content
    assert only.certificates == [signature.certificate((keys / "ours.der").read_bytes())]
    assert only.certificates[0].name.startswith("kernel-thp, SHA-256 ")


def test_the_hash_is_that_of_the_padded_image(keys: Path, tmp_path: Path) -> None:
    odd, signed = tmp_path / "odd", tmp_path / "signed"
    odd.write_bytes(program() + b"odd")
    run("sbsign", "--key", keys / "ours.key", "--cert", keys / "ours.pem", "--output", signed, odd)
    found = signature.image(signed.read_bytes())
    assert found.sha256 in found.signatures[0].content
    assert signature.image(odd.read_bytes()).sha256 == found.sha256


@pytest.mark.parametrize(
    ("allowed", "denied", "image", "state"),
    [
        (["ours"], [], "ours", "trusted"),
        (["ca", "ours"], [], "ours", "trusted"),
        ([], [], "ours", "unknown"),
        (["ca"], [], "ours", "unknown"),
        # What a key that was made again under the same name must not be taken for.
        (["namesake"], [], "ours", "unknown"),
        (["ca"], [], "leaf", "trusted"),
        (["leaf"], [], "leaf", "trusted"),
        (["ca-namesake"], [], "leaf", "unknown"),
        (["ours"], ["ours"], "ours", "revoked"),
        (["ca"], ["ca"], "leaf", "revoked"),
        (["ca"], ["leaf"], "leaf", "revoked"),
        (["ours"], [], "plain", "unsigned"),
    ],
)
def test_the_state_of_an_image(
    keys: Path, allowed: Sequence[str], denied: Sequence[str], image: str, state: str
) -> None:
    def lists(names: Sequence[str]) -> signature.Lists:
        made = signature.Lists()
        made.add(b"".join((keys / f"{name}.esl").read_bytes() for name in names))
        assert len(made.certificates) == len(names)
        return made

    read = signature.image((keys / f"{image}.efi").read_bytes())
    assert secure_boot.state(read, lists(allowed), lists(denied))[0] == state


def test_a_hash_counts_as_well_as_a_certificate(keys: Path) -> None:
    read = signature.image((keys / "plain.efi").read_bytes())
    size = 28 + 16 + len(read.sha256)
    listed = signature.Lists()
    listed.add(signature.HASH + struct.pack("<III", size, 0, 48) + bytes(16) + read.sha256)
    assert secure_boot.state(read, listed, signature.Lists())[0] == "trusted"
    assert secure_boot.state(read, listed, listed)[0] == "revoked"


@pytest.mark.parametrize("cut", [0, 1, 63, 70, 200, 600, 1030, 1100, 1600])
def test_a_damaged_image_is_damaged_and_no_crash(keys: Path, tmp_path: Path, cut: int) -> None:
    (tmp_path / "image").write_bytes((keys / "ours.efi").read_bytes()[:cut])
    variables = {**ENFORCED, DB: (keys / "ours.esl").read_bytes()}
    found = host(tmp_path, variables, tmp_path / "image")
    assert found.result == "degraded"
    assert "it is no EFI image" in found.what


@pytest.mark.parametrize("seed", range(4))
def test_what_is_not_what_it_should_be_is_malformed_and_nothing_else(keys: Path, seed: int) -> None:
    chance = random.Random(seed)
    whole, one = (keys / "leaf.efi").read_bytes(), (keys / "ca.esl").read_bytes()
    known = signature.Lists()
    known.add(one)
    for _ in range(200):
        image, listed = bytearray(whole), bytearray(one)
        for data in (image, listed):
            for _ in range(chance.randrange(1, 6)):
                data[chance.randrange(len(data))] = chance.randrange(256)
        lists = signature.Lists()
        lists.add(bytes(listed[: chance.randrange(len(listed))]))
        lists.add(bytes(listed))
        with contextlib.suppress(signature.Malformed):
            read = signature.image(bytes(image))
            assert secure_boot.state(read, known, lists)[0] in secure_boot.STATES
            assert secure_boot.state(read, lists, known)[0] in secure_boot.STATES
        assert all("SHA-256" in each.name for each in lists.certificates)


def test_an_image_that_was_changed_is_damaged(keys: Path, tmp_path: Path) -> None:
    changed = bytearray((keys / "ours.efi").read_bytes())
    changed[700] ^= 1
    (tmp_path / "image").write_bytes(changed)
    variables = {**ENFORCED, DB: (keys / "ours.esl").read_bytes()}
    assert "not the one that was signed" in host(tmp_path, variables, tmp_path / "image").what


@pytest.mark.parametrize("variable", [DB, MOK])
def test_a_host_with_the_certificate_boots_it(keys: Path, tmp_path: Path, variable: str) -> None:
    found = host(tmp_path, {**ENFORCED, variable: (keys / "ours.esl").read_bytes()}, keys / "ours.efi")
    assert (found.result, found.what) == ("ok", f"enforced, and /lib/modules/{UNAME}/vmlinuz is trusted")


def test_a_large_mok_list_is_read_where_it_is_whole(keys: Path, tmp_path: Path) -> None:
    whole = tmp_path / "sys" / "firmware" / "efi" / "mok-variables"
    whole.mkdir(parents=True)
    (whole / "MokListRT").write_bytes((keys / "ca.esl").read_bytes() + (keys / "ours.esl").read_bytes())
    assert host(tmp_path, {**ENFORCED, MOK: (keys / "ca.esl").read_bytes()}, keys / "ours.efi").result == "ok"


def test_an_unsigned_kernel_is_named(keys: Path, tmp_path: Path) -> None:
    found = host(tmp_path, {**ENFORCED, DB: (keys / "ours.esl").read_bytes()}, keys / "plain.efi")
    assert found.result == "degraded"
    assert found.what.endswith(f"would not boot /lib/modules/{UNAME}/vmlinuz: it is not signed")


@pytest.mark.parametrize(
    ("more", "file", "hint"),
    [
        ({MOK: b""}, "ours.der", "`mokutil --import /usr/share/kernel-thp-release/secure-boot.der`, reboot"),
        ({MOK: b""}, "ca.der", "`mokutil --import FILE` (FILE: the certificate that kernel-thp-release has"),
        ({MOK: b"", f"MokNew-{secure_boot.SHIM}": b"x"}, "ours.der", "reboot, and confirm the import"),
        ({}, "ours.der", "enrol /usr/share/kernel-thp-release/secure-boot.der in db in the firmware's setup"),
    ],
)
def test_the_hint_says_where_to_enrol_which_file(
    keys: Path, tmp_path: Path, more: dict[str, bytes], file: str, hint: str
) -> None:
    found = host(tmp_path, {**ENFORCED, **more}, keys / "ours.efi", certificate=keys / file)
    assert found.result == "degraded"
    assert "its certificate (kernel-thp, SHA-256 " in found.what
    assert found.what.endswith("db or the MOK list" if more else "is not in db")
    assert found.hint.startswith(hint)


def test_before_the_installation_the_certificate_is_checked(keys: Path, tmp_path: Path) -> None:
    found = host(tmp_path, {**ENFORCED, MOK: b""}, None, STOCK, keys / "ours.der")
    assert found.result == "degraded"
    assert "would not boot a kernel signed by /usr/share/kernel-thp-release/secure-boot.der" in found.what


def test_before_the_installation_without_a_certificate_nothing_can_be_checked(keys: Path, tmp_path: Path) -> None:
    assert host(tmp_path, ENFORCED, None, STOCK).result == "skipped"


def test_do_not_boot_what_would_not_boot(keys: Path, tmp_path: Path) -> None:
    host(tmp_path, {**ENFORCED, MOK: b""}, keys / "ours.efi", STOCK)
    hint = next(each.hint for each in checks.evaluate(collected(tmp_path, STOCK)) if each.id == "kernel-flavour")
    assert hint.startswith(f"first do what the check secure-boot says, then boot {UNAME}")


def test_another_kernel_than_the_newest_can_be_asked_for(keys: Path, tmp_path: Path) -> None:
    host(tmp_path, {**ENFORCED, DB: (keys / "ours.esl").read_bytes()}, keys / "plain.efi")
    other = tmp_path / "lib/modules/6.1.1-1.x86_64+thp.server"
    other.mkdir()
    shutil.copy(keys / "ours.efi", other / "vmlinuz")
    states = {uname: facts.collect(System(tmp_path), uname).secure_boot.state for uname in (None, UNAME, other.name)}
    assert states == {None: "unsigned", UNAME: "unsigned", other.name: "trusted"}


@pytest.mark.parametrize(
    ("variables", "result", "what"),
    [
        ({}, "unseen", "not readable"),
        ({"Timeout-1": b""}, "ok", "not enforced"),
        ({**ENFORCED, f"SecureBoot-{secure_boot.GLOBAL}": b"\0"}, "ok", "not enforced"),
        ({**ENFORCED, f"SetupMode-{secure_boot.GLOBAL}": b"\1"}, "ok", "not enforced"),
        ({**ENFORCED, MOK: b"", f"MokSBStateRT-{secure_boot.SHIM}": b"\1"}, "ok", "not enforced"),
        ({**ENFORCED, f"MokSBStateRT-{secure_boot.SHIM}": b"\1"}, "degraded", "not signed"),
    ],
)
def test_what_is_not_enforced_refuses_nothing(
    keys: Path, tmp_path: Path, variables: dict[str, bytes], result: str, what: str
) -> None:
    found = host(tmp_path, variables, keys / "plain.efi")
    assert (found.result, what in found.what) == (result, True)


def test_without_uefi_there_is_no_secure_boot(tmp_path: Path) -> None:
    found = collected(tmp_path, {})
    assert (found.secure_boot.uefi, found.secure_boot.enforced) == (False, False)
    assert "boot      no UEFI visible" in report.as_text(found, []).splitlines()
    assert wrong(found) == {}


@pytest.mark.parametrize(
    ("lockdown", "result"),
    [("[none] integrity confidentiality", "degraded"), ("none [integrity] confidentiality", "ok"), (None, "ok")],
)
def test_a_kernel_under_secure_boot_is_locked_down(
    keys: Path, tmp_path: Path, lockdown: str | None, result: str
) -> None:
    if lockdown:
        (tmp_path / secure_boot.LOCKDOWN.lstrip("/")).parent.mkdir(parents=True)
        (tmp_path / secure_boot.LOCKDOWN.lstrip("/")).write_text(lockdown)
    found = host(tmp_path, {**ENFORCED, DB: (keys / "ours.esl").read_bytes()}, keys / "ours.efi")
    assert found.result == result
    boot = secure_boot.text(secure_boot.collect(System(tmp_path), [UNAME]))
    assert boot.startswith("UEFI, Secure Boot enforced")
    assert boot.endswith({"degraded": "lockdown none", "ok": "lockdown integrity"}[result] if lockdown else "enforced")
    assert ("lockdown=integrity" in found.hint) == (result == "degraded")
