"""The key that signs the kernel for Secure Boot, and its certificate, which firmware or shim has to know.

They are what SIGN_KEY and SIGN_CERT name, or a pair of ours, made on first use. A pair of ours is made once: where a
repository has its certificate already, it is not made a second time, because no host would boot what that signs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts import signing
from scripts.console import BUILD, UserError, say

FOLDER = BUILD / "secure-boot"
CERTIFICATE_NAME = "kernel-thp-secure-boot.der"
DAYS = 5 * 365 + 1
# RSA with 2048 bits is what every firmware can check. The certificate is for programs, and is no authority for others.
REQUEST = """\
[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = kernel-thp Secure Boot signing
[extensions]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = codeSigning
subjectKeyIdentifier = hash
"""


@dataclass(frozen=True)
class Signer:
    """`key` is the path of a file in PEM form, or the pkcs11: URI of a key that stays in its token."""

    key: str
    certificate: Path

    @property
    def in_token(self) -> bool:
        return self.key.startswith("pkcs11:")

    @property
    def rpmbuild(self) -> list[str]:
        """The options that have the spec sign the kernel."""
        macros = {
            "sign_key": self.key,
            "sign_cert": str(self.certificate),
            **({"sign_engine": "pkcs11"} if self.in_token else {}),
        }
        # In a URI, a percent sign begins the code of a character; for rpm, it would begin a macro.
        return [f"--define={name} {value.replace('%', '%%')}" for name, value in macros.items()]

    def der(self) -> bytes:
        """Return the certificate in the form that mokutil and firmware read."""
        command = ["openssl", "x509", "-in", str(self.certificate), "-outform", "DER"]
        return subprocess.run(command, check=True, capture_output=True).stdout


def openssl(command: Sequence[str], given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(["openssl", *command], input=given, capture_output=True, text=True, check=False)


def signer() -> Signer:
    """Return the key and the certificate, checked, for this build."""
    key, certificate = os.environ.get("SIGN_KEY"), os.environ.get("SIGN_CERT")
    if bool(key) != bool(certificate):
        raise UserError("SIGN_KEY and SIGN_CERT belong together, and one is missing", "give both, or neither")
    if key and certificate:
        # rpmbuild works in another directory.
        found = Signer(key if key.startswith("pkcs11:") else str(Path(key).resolve()), Path(certificate).resolve())
    else:
        found = ours()
    check(found)
    return found


def ours() -> Signer:
    found = Signer(str(FOLDER / "key.pem"), FOLDER / "cert.pem")
    if not Path(found.key).exists() or not found.certificate.exists():
        public = (*BUILD.glob(f"*/{CERTIFICATE_NAME}"), *FOLDER.glob("*.pem"))
        signing.refuse_second(iter(public), f"the Secure Boot key in {FOLDER}", "SIGN_KEY and SIGN_CERT")
        make(FOLDER)
    return found


def make(folder: Path) -> None:
    """Make a key and its certificate, and give the folder its name when both are there."""
    say(f"make a Secure Boot key in {folder}, valid for 5 years: back it up, hosts boot by a key they know")
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True, mode=0o700)
    new = ["req", "-x509", "-config", "/dev/stdin", "-newkey", "rsa:2048", "-sha256", "-nodes", "-days", str(DAYS)]
    done = openssl([*new, "-keyout", str(part / "key.pem"), "-out", str(part / "cert.pem")], REQUEST)
    if done.returncode != 0:
        raise UserError(f"openssl cannot make a key: {done.stderr.strip()}", "install openssl 1.1.1 or newer")
    part.rename(folder)


def check(found: Signer) -> None:
    """Stop at a certificate with which no kernel would boot, and at a key that is not the one it is for."""
    described = ["x509", "-in", str(found.certificate), "-noout"]
    of_certificate = openssl([*described, "-pubkey"])
    if of_certificate.returncode != 0:
        raise UserError(f"{found.certificate} is no certificate in PEM form", "give one, as SIGN_CERT")
    if openssl([*described, "-checkend", "0"]).returncode != 0:
        raise UserError(f"{found.certificate} has expired", "use a newer certificate, and enroll it on the hosts first")
    purposes = openssl([*described, "-ext", "extendedKeyUsage"]).stdout
    if "Extended Key Usage" in purposes and "Code Signing" not in purposes:
        raise UserError(f"{found.certificate} is not for signing code", "use one with extendedKeyUsage=codeSigning")
    place = ["-engine", "pkcs11", "-inform", "engine"] if found.in_token else ["-passin", "pass:"]
    of_key = openssl(["pkey", *place, "-in", found.key, "-pubout"])
    if of_key.returncode != 0:
        reason = "".join(of_key.stderr.strip().splitlines()[-1:])
        hint = "give a PEM file without a passphrase, or a pkcs11: URI with its PIN, for which openssl needs its engine"
        raise UserError(f"the Secure Boot key cannot be read: {reason}", hint)
    if of_key.stdout != of_certificate.stdout:
        raise UserError(
            f"{found.certificate} is not the certificate of the Secure Boot key", "give the pair that belongs together"
        )
