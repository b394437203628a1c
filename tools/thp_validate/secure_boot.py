"""Secure Boot: whether it is enforced, and whether this host would boot an installed kernel-thp."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from . import installed, signature
from .signature import Certificate, Lists, Malformed
from .system import System

EFI = "/sys/firmware/efi"
GLOBAL, SECURITY, SHIM = (
    "8be4df61-93ca-11d2-aa0d-00e098032b8c",
    "d719b2cb-3d3a-4596-a3bc-dad00e67656f",
    "605dab50-e046-4300-abb6-3dd810dd8b23",
)
LOCKDOWN = "/sys/kernel/security/lockdown"
# Where the package kernel-thp-release has the certificate, in DER.
CERTIFICATES = "/usr/share/kernel-thp-release"
ELSEWHERE = f"the certificate that kernel-thp-release has in {CERTIFICATES}"
TRUSTED, UNSIGNED, UNKNOWN, REVOKED, DAMAGED = "trusted", "unsigned", "unknown", "revoked", "damaged"
STATES = (TRUSTED, UNSIGNED, UNKNOWN, REVOKED, DAMAGED, None)


@dataclass
class SecureBoot:
    """Secure Boot, and whether it lets the newest installed kernel-thp boot, or the one that was asked for."""

    uefi: Annotated[bool, "whether the host was booted by UEFI"] = False
    enforced: Annotated[bool | None, "whether only trusted kernels boot; null: the firmware is out of reach"] = None
    shim: Annotated[bool, "whether shim ran, which takes the certificates in the MOK list as well"] = False
    lockdown: Annotated[str | None, "of the running kernel: none, integrity, confidentiality; null: it has none"] = None
    subject: Annotated[str | None, "image that was checked, or a certificate if no kernel-thp is installed"] = None
    state: Annotated[str | None, "unknown: its certificate is not enrolled; null: not checked", STATES] = None
    signer: Annotated[str | None, "common name and SHA-256 fingerprint of the certificate"] = None
    certificate: Annotated[str | None, "the file with it, for `mokutil --import`"] = None
    import_pending: Annotated[bool, "whether an import into the MOK list waits for a reboot"] = False


def collect(system: System, kernels: Sequence[str]) -> SecureBoot:
    found = SecureBoot(uefi=system.path(EFI).is_dir())
    match = re.search(r"\[(\w+)\]", system.read(LOCKDOWN) or "")
    found.lockdown = match.group(1) if match else None
    secure, setup = _variable(system, "SecureBoot", GLOBAL), _variable(system, "SetupMode", GLOBAL)
    if not found.uefi or secure is None:
        # Firmware without Secure Boot has no such variable, but others.
        found.enforced = None if found.uefi and not any(system.path(f"{EFI}/efivars").glob("*")) else False
        return found
    found.shim = _mok(system, "MokListRT") is not None
    # `mokutil --disable-validation` makes shim take everything.
    unchecked = found.shim and (_mok(system, "MokSBStateRT") or b"\0")[:1] == b"\1"
    found.enforced = secure[:1] == b"\1" and (setup or b"\0")[:1] == b"\0" and not unchecked
    if found.enforced:
        found.import_pending = _variable(system, "MokNew", SHIM) is not None
        _check(system, found, kernels)
    return found


def text(found: SecureBoot) -> str:
    lockdown = f", lockdown {found.lockdown}" if found.lockdown else ""
    if not found.uefi:
        return f"no UEFI visible{lockdown}"
    enforced = {True: "enforced", False: "not enforced", None: "unknown"}[found.enforced]
    return f"UEFI, Secure Boot {enforced}{lockdown}"


def _check(system: System, found: SecureBoot, kernels: Sequence[str]) -> None:
    allowed, denied = Lists(), Lists()
    for lists, name, mok in ((allowed, "db", "MokListRT"), (denied, "dbx", "MokListXRT")):
        lists.add(_variable(system, name, SECURITY) or b"")
        lists.add(_mok(system, mok) or b"")
    files = _files(system)
    if not kernels:
        for name, ours in files.items():
            found.subject, found.certificate, found.signer = f"a kernel signed by {name}", name, ours.name
            found.state = TRUSTED if ours in allowed.certificates else UNKNOWN
            if ours in denied.certificates:
                found.state = REVOKED
            if found.state == TRUSTED:
                break
        return
    found.subject = installed.image(kernels[0])
    data = system.bytes_of(found.subject)
    if data is None:
        return
    try:
        image = signature.image(data)
    except Malformed:
        found.state = DAMAGED
        return
    found.state, signer = state(image, allowed, denied)
    if signer:
        found.signer = signer.name
        found.certificate = next((name for name, one in files.items() if one == signer or one.signs(signer)), None)


def state(image: signature.Image, allowed: Lists, denied: Lists) -> tuple[str, Certificate | None]:
    """Return the state of an image, and the certificate that the image is signed with, as far as it is known."""
    signer = next(filter(None, (each.signer(allowed.certificates) for each in image.signatures)), None)
    if image.sha256 in denied.hashes:
        return REVOKED, signer
    if image.sha256 in allowed.hashes:
        return TRUSTED, signer
    if not image.signatures:
        return UNSIGNED, None
    good = [each for each in image.signatures if image.sha256 in each.content]
    if not good:
        return DAMAGED, signer
    chains = [chain for chain in (each.chain(allowed.certificates) for each in good) if chain]
    if any(not set(chain) & set(denied.certificates) for chain in chains):
        return TRUSTED, signer
    return (REVOKED if chains else UNKNOWN), signer


def _files(system: System) -> dict[str, Certificate]:
    """Return the certificates that our package installed, by their files."""
    found = {}
    for path in sorted(system.path(CERTIFICATES).glob("*")):
        name = f"{CERTIFICATES}/{path.name}"
        try:
            found[name] = signature.certificate(system.bytes_of(name) or b"")
        except Malformed:
            continue
    return found


def _variable(system: System, name: str, vendor: str) -> bytes | None:
    """Return a variable of the firmware, without the four bytes of attributes before it."""
    data = system.bytes_of(f"{EFI}/efivars/{name}-{vendor}")
    return None if data is None else data[4:]


def _mok(system: System, name: str) -> bytes | None:
    """Return a variable of shim: all of it from the table for the kernel, as one of the firmware may be too small."""
    data = system.bytes_of(f"{EFI}/mok-variables/{name}")
    return _variable(system, name, SHIM) if data is None else data
