"""What an EFI image is signed with, and whether the firmware would take it: PE files, PKCS #7, X.509, signature lists.

Only the formats of Secure Boot: Authenticode with SHA-256, certificates with RSA keys, lists of these and of hashes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

CERTIFICATE = UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072").bytes_le
HASH = UUID("c1c41626-504c-4092-aca9-41f936934328").bytes_le
PE32_PLUS, PKCS7 = 0x20B, 2
SEQUENCE, SET, INTEGER, FIRST_TAG = 0x30, 0x31, 0x02, 0xA0
COMMON_NAME = bytes.fromhex("0603550403")
# The digest algorithms of an RSA signature by the last byte of their identifiers, 1.2.840.113549.1.1.x
DIGESTS = {5: "sha1", 11: "sha256", 12: "sha384", 13: "sha512"}


class Malformed(ValueError):
    """Not in the format it should have."""


@dataclass(frozen=True)
class Item:
    """One element of DER: its tag, its content, and both as they were encoded."""

    tag: int
    content: bytes
    whole: bytes

    @property
    def parts(self) -> list[Item]:
        return list(items(self.content))


def items(data: bytes) -> Iterator[Item]:
    at = 0
    while at < len(data):
        if at + 2 > len(data):
            raise Malformed("DER ends within an element")
        tag, length, start = data[at], data[at + 1], at + 2
        if length & 0x80:
            count = length & 0x7F
            length, start = int.from_bytes(data[start : start + count], "big"), start + count
        if start + length > len(data):
            raise Malformed("DER ends within an element")
        yield Item(tag, data[start : start + length], data[at : start + length])
        at = start + length


@dataclass(frozen=True)
class Certificate:
    der: bytes
    signed: bytes
    serial: bytes
    issuer: bytes
    subject: bytes
    key: bytes
    algorithm: bytes
    signature: bytes

    @property
    def name(self) -> str:
        """Return the common name of the subject and the SHA-256 fingerprint of the certificate."""
        _, _, after = self.subject.partition(COMMON_NAME)
        try:
            text = next(items(after)).content.decode(errors="replace")
        except (Malformed, StopIteration):
            text = "no common name"
        return f"{text}, SHA-256 {hashlib.sha256(self.der).hexdigest()}"

    def signs(self, other: Certificate) -> bool:
        """Return whether the key of this certificate made the signature of another one."""
        digest = DIGESTS.get(int.from_bytes(other.algorithm[-1:], "big"))
        try:
            modulus, exponent = (int.from_bytes(part.content, "big") for part in next(items(self.key[1:])).parts)
        except (Malformed, StopIteration, ValueError):
            return False
        if digest is None or not modulus:
            return False
        size = (modulus.bit_length() + 7) // 8
        opened = pow(int.from_bytes(other.signature[1:], "big"), exponent, modulus).to_bytes(size, "big")
        padding, _, encoded = opened[2:].partition(b"\0")
        expected = hashlib.new(digest, other.signed, usedforsecurity=False).digest()
        return opened[:2] == b"\0\1" and padding.strip(b"\xff") == b"" and encoded.endswith(expected)


def certificate(der: bytes) -> Certificate:
    try:
        (outer,) = items(der)
        signed, algorithm, value = outer.parts
        parts = [part for part in signed.parts if part.tag != FIRST_TAG]
        serial, _, issuer, _, subject, key = parts[:6]
        return Certificate(
            der,
            signed.whole,
            serial.content,
            issuer.whole,
            subject.whole,
            key.parts[1].content,
            algorithm.parts[0].content,
            value.content,
        )
    except (ValueError, IndexError):
        raise Malformed("not an X.509 certificate") from None


@dataclass
class Lists:
    """Certificates and SHA-256 hashes of a variable such as db."""

    certificates: list[Certificate] = field(default_factory=list)
    hashes: set[bytes] = field(default_factory=set)

    def add(self, data: bytes) -> None:
        """Add what a sequence of EFI_SIGNATURE_LIST has; what is in no known format is left out."""
        while len(data) >= 28:
            kind = data[:16]
            size, header, each = struct.unpack_from("<III", data, 16)
            if not 28 <= size <= len(data) or each <= 16:
                return
            body = data[28 + header : size]
            for entry in (body[at + 16 : at + each] for at in range(0, len(body) - each + 1, each)):
                if kind == HASH:
                    self.hashes.add(entry)
                elif kind == CERTIFICATE:
                    try:
                        self.certificates.append(certificate(entry))
                    except Malformed:
                        continue
            data = data[size:]


@dataclass(frozen=True)
class Image:
    """The Authenticode hash of an image, and of each of its signatures the signer, or None if that is not in it."""

    sha256: bytes
    signatures: list[Signature]


@dataclass(frozen=True)
class Signature:
    content: bytes
    certificates: list[Certificate]
    issuer: bytes
    serial: bytes

    def signer(self, trusted: Sequence[Certificate] = ()) -> Certificate | None:
        known = (*self.certificates, *trusted)
        return next((one for one in known if (one.issuer, one.serial) == (self.issuer, self.serial)), None)

    def chain(self, trusted: Sequence[Certificate]) -> list[Certificate] | None:
        """Return the certificates from the signer to a trusted one; None if none leads there."""
        found: list[Certificate] = []
        current = self.signer(trusted)
        while current and current not in found:
            found.append(current)
            if current in trusted:
                return found
            known = (*trusted, *self.certificates)
            current = next((one for one in known if one.subject == current.issuer and one.signs(current)), None)
        return None


def image(data: bytes) -> Image:
    """Read a PE32+ image. Its hash leaves out the checksum, the place of the signatures and these themselves."""
    try:
        header = struct.unpack_from("<I", data, 0x3C)[0]
        if data[:2] != b"MZ" or data[header : header + 4] != b"PE\0\0":
            raise Malformed("not an EFI image")
        optional = header + 24
        if struct.unpack_from("<H", data, optional)[0] != PE32_PLUS:
            raise Malformed("not an image for a 64-bit machine")
        checksum, directory = optional + 64, optional + 112 + 4 * 8
        place, size = struct.unpack_from("<II", data, directory)
    except struct.error:
        raise Malformed("not an EFI image") from None
    if place + size > len(data):
        raise Malformed("it ends before its signature does")
    end = place or len(data)
    hashed = data[:checksum] + data[checksum + 4 : directory] + data[directory + 8 : end]
    # A signer pads the image to eight bytes before it adds the signature.
    hashed += bytes(-end % 8) if not place else b""
    return Image(hashlib.sha256(hashed).digest(), list(_signatures(data[place : place + size] if place else b"")))


def _signatures(table: bytes) -> Iterator[Signature]:
    while len(table) >= 8:
        length, _, kind = struct.unpack_from("<IHH", table)
        if length < 8:
            return
        if kind == PKCS7:
            yield _pkcs7(table[8:length])
        table = table[-(-length // 8) * 8 :]


def _pkcs7(data: bytes) -> Signature:
    try:
        signed = next(items(data)).parts[1].parts[0].parts
        certificates = [certificate(part.whole) for each in signed if each.tag == FIRST_TAG for part in each.parts]
        who = signed[-1].parts[0].parts[1].parts
        return Signature(signed[2].content, certificates, who[0].whole, who[1].content)
    except (IndexError, StopIteration):
        raise Malformed("its signature is damaged") from None
