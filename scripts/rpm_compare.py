"""Find how two builds of the same packages differ, apart from the keys that sign modules and kernel.

That of the modules exists for one build only. The comparison leaves out what depends on it: the signature at the end of
each module, the certificate inside the kernel, and the build id that the linker computes over the certificate. The
signature of the kernel for Secure Boot names its time; it is outside of the kernel that the image unpacks.
"""

from __future__ import annotations

import struct
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from scripts import rpms
from scripts.console import UserError

SIGNED = b"~Module signature appended~\n"
SIGNATURE_INFO = struct.Struct(">BBBBB3xI")
UNPACK = {".zst": "zstd", ".xz": "xz", ".gz": "gzip"}
# All of a header but its own digests, which cover the digests of the files.
HEADER = (
    "%{NAME} %{VERSION} %{RELEASE} %{ARCH} %{BUILDTIME} %{BUILDHOST} %{PLATFORM} %{OPTFLAGS} %{PAYLOADCOMPRESSOR}"
    " %{PAYLOADFLAGS}\n[P %{PROVIDENEVRS}\n][R %{REQUIRENEVRS}\n][C %{CONFLICTNEVRS}\n]"
    "[%{CHANGELOGTIME} %{CHANGELOGTEXT}\n]%{POSTIN}\n%{PREUN}\n%{POSTUN}\n%{POSTTRANS}\n"
)
FILES = "[%{FILENAMES}\t%{FILEDIGESTS}\t%{FILEMODES:octal} %{FILESIZES} %{FILEMTIMES} %{FILELINKTOS} %{FILEFLAGS}\n]"


@dataclass
class Comparison:
    """The differences of one package."""

    name: str
    same: bool
    by_key: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)


def query(package: Path, form: str) -> str:
    command = ["rpm", "-qp", "--nosignature", "--queryformat", form, str(package)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UserError(f"{package} is not a package: {done.stderr.strip()}", "build it again")
    return done.stdout


def files(package: Path) -> dict[str, tuple[str, str]]:
    """Return path -> (digest, everything else)."""
    lines = [line.split("\t") for line in query(package, FILES).splitlines()]
    return {line[0]: (line[1], line[2]) for line in lines if len(line) == 3}


def unpacked(path: Path) -> bytes:
    if path.suffix not in UNPACK:
        return path.read_bytes()
    return subprocess.run([UNPACK[path.suffix], "-dc", str(path)], capture_output=True, check=True).stdout


def without_signature(module: bytes) -> bytes:
    if not module.endswith(SIGNED):
        return module
    end = len(module) - len(SIGNED) - SIGNATURE_INFO.size
    *_, length = SIGNATURE_INFO.unpack_from(module, end)
    return module[: end - length]


def symbols(system_map: str) -> dict[str, int]:
    return {name: int(address, 16) for address, _, name in (line.split() for line in system_map.splitlines())}


def kernel_inside(image: bytes) -> bytearray:
    """Return the ELF file that a bzImage unpacks; Documentation/x86/boot.rst has the offsets."""
    sectors = image[0x1F1]
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (sectors + 1) * 512 + offset
    # The last four bytes are the size of what is packed.
    packed = image[start : start + length - 4]
    return bytearray(subprocess.run(["zstd", "-dc"], input=packed, capture_output=True, check=True).stdout)


def place(elf: bytearray, address: int) -> int:
    """Return the offset in an ELF file of what is loaded at an address."""
    (table,) = struct.unpack_from("<Q", elf, 0x20)
    size, count = struct.unpack_from("<HH", elf, 0x36)
    for number in range(count):
        kind, _, offset, virtual, _, length = struct.unpack_from("<IIQQQQ", elf, table + number * size)
        if kind == 1 and virtual <= address < virtual + length:
            return int(offset + address - virtual)
    raise UserError(f"no part of the kernel holds address {address:x}", "compare the builds by hand")


def without_key(elf: bytearray, system_map: str) -> bytes:
    """Return a kernel with its certificates and its build id blanked."""
    known = symbols(system_map)
    (length,) = struct.unpack_from("<Q", elf, place(elf, known["system_certificate_list_size"]))
    notes = known["__stop_notes"] - known["__start_notes"]
    for address, size in ((known["system_certificate_list"], length), (known["__start_notes"], notes)):
        start = place(elf, address)
        elf[start : start + size] = bytes(size)
    return bytes(elf)


def essence(path: Path) -> bytes:
    """Return the content of a file without what depends on the key."""
    if ".ko" in path.suffixes:
        return without_signature(unpacked(path))
    if path.name == "vmlinuz":
        return without_key(kernel_inside(path.read_bytes()), path.with_name("System.map").read_text())
    if path.name == "vmlinux":
        names = subprocess.run(["nm", str(path)], capture_output=True, text=True, check=True).stdout
        return without_key(bytearray(path.read_bytes()), names)
    if path.name == ".vmlinuz.hmac":
        return b""  # a sum of the kernel, which is compared itself
    return path.read_bytes()


def compare(one: Path, other: Path) -> Comparison:
    """Compare two files of one package."""
    found = Comparison(one.name, same=query(one, "%{PAYLOADDIGEST}") == query(other, "%{PAYLOADDIGEST}"))
    if query(one, HEADER) != query(other, HEADER):
        found.different.append("header")
    mine, theirs = files(one), files(other)
    found.different += sorted(mine.keys() ^ theirs.keys())
    both = mine.keys() & theirs.keys()
    suspects = sorted(path for path in both if mine[path][0] != theirs[path][0])
    # Signatures vary in length, and so do the files.
    rest = {path: [pair[path][1].split(" ") for pair in (mine, theirs)] for path in both}
    found.different += sorted(path for path, (a, b) in rest.items() if a[0] != b[0] or a[2:] != b[2:])
    if suspects:
        with tempfile.TemporaryDirectory() as scratch:
            roots = [Path(scratch) / name for name in ("one", "other")]
            for package, root in zip((one, other), roots):
                root.mkdir()
                rpms.extract(package, root)
            for path in suspects:
                first, second = (essence(root / path.lstrip("/")) for root in roots)
                (found.by_key if first == second else found.different).append(path)
    return found


def compare_all(one: Path, other: Path) -> list[Comparison]:
    """Compare two folders of packages; they must hold the same ones."""
    names = [{path.name for path in folder.glob("*.rpm")} for folder in (one, other)]
    if names[0] != names[1] or not names[0]:
        raise UserError(f"{one} and {other} do not hold the same packages", "build both from the same spec")
    return [compare(one / name, other / name) for name in sorted(names[0])]
