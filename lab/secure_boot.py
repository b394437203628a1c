"""Secure Boot in the lab: a key of the lab's own, what it signs, and firmware that enforces signatures.

The firmware has Microsoft's certificates, as a bought machine has. The lab's certificate is enrolled as a machine owner
key (MOK), which is shim's way to trust whom the owner trusts; `mokutil --import` asks for the same at a console.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from scripts.console import BUILD, UserError

FOLDER = BUILD / "lab" / "secure-boot"
KEY = FOLDER / "lab.key"
CERTIFICATE = FOLDER / "lab.crt"
FIRMWARE_VARIABLES = BUILD / "venv" / "bin" / "virt-fw-vars"
NAME = "kernel-thp lab"
DAYS = 3650
# Any GUID will do: it says who enrolled a certificate.
OWNER = "6c62b7a5-6f3f-4c0e-8d65-3c0a4f0f6d5b"


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise UserError(f"missing program: {command[0]}", "run `make deps`") from None
    except subprocess.CalledProcessError as error:
        raise UserError(f"`{' '.join(command)}` failed: {error.stderr.strip()}", "check these files") from None


def certificate() -> Path:
    """Return the certificate of the lab's key; both are made on first use. The key never leaves this machine."""
    if not CERTIFICATE.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-noenc", "-sha256", "-subj", f"/CN={NAME}"]
        part = CERTIFICATE.with_suffix(".part")
        # It signs code and nobody else's certificate.
        for extension in (
            "basicConstraints=critical,CA:FALSE",
            "keyUsage=digitalSignature",
            "extendedKeyUsage=codeSigning",
        ):
            command += ["-addext", extension]
        _run(*command, "-days", str(DAYS), "-keyout", str(KEY), "-out", str(part))
        part.replace(CERTIFICATE)
    return CERTIFICATE


def sign(image: Path, out: Path) -> None:
    """Sign a loader for the firmware."""
    _run("sbsign", "--key", str(KEY), "--cert", str(certificate()), "--output", str(out), str(image))


def enroll(variables: Path, trusted: Path | None = None) -> None:
    """Enroll a certificate, by default the lab's, as a MOK in a file of EFI variables, beside those that it has."""
    mok = ["--add-mok", OWNER, str(trusted or certificate())]
    _run(str(FIRMWARE_VARIABLES), "--inplace", str(variables), *mok)
