"""A software bill of materials for each package: SPDX 2.3 as JSON, from its header and the pinned source.

It says what the package is, which source and which patches it was made from, and what it needs to be installed.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from scripts import lock
from scripts.console import ROOT, UserError

FOLDER = "sbom"
SUPPLIER = "Organization: kernel-thp project"
TAGS = ("NAME", "VERSION", "RELEASE", "ARCH", "LICENSE", "SUMMARY", "URL", "BUILDTIME", "SOURCERPM")
NONE = "NOASSERTION"
# Who made the tarball. That of linux-source has patches of Debian's, so it is not what kernel.org released.
SUPPLIERS = {
    lock.KERNEL_ORG: "Organization: kernel.org",
    lock.DEBIAN: "Organization: Debian",
    lock.LINUX_SOURCE: "Organization: Debian",
}
# Where the tarball of a version is published, whoever it was fetched from.
KERNEL_ORG = "https://cdn.kernel.org/pub/linux/kernel/v{major}.x/linux-{version}.tar.xz"


def header(package: Path, form: str) -> list[str]:
    command = ["rpm", "-qp", "--nosignature", "--queryformat", form, str(package)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UserError(f"{package} is not a package: {done.stderr.strip()}", "build it again")
    return done.stdout.splitlines()


def digest(path: Path, kind: str) -> dict[str, str]:
    return {"algorithm": kind.upper(), "checksumValue": hashlib.new(kind, path.read_bytes()).hexdigest()}


def part(identifier: str, name: str, version: str, **more: object) -> dict[str, Any]:
    """Return a package in the sense of SPDX, with what has to be said of each."""
    return {
        "SPDXID": identifier,
        "name": name,
        "versionInfo": version,
        "downloadLocation": NONE,
        "filesAnalyzed": False,
        "licenseConcluded": NONE,
        "licenseDeclared": NONE,
        "copyrightText": NONE,
        **more,
    }


def reference(category: str, kind: str, locator: str) -> dict[str, str]:
    return {"referenceCategory": category, "referenceType": kind, "referenceLocator": locator}


class Bill:
    """What one package is made of."""

    def __init__(self, package: Path) -> None:
        self.tags = dict(zip(TAGS, header(package, "".join(f"%{{{tag}}}\\n" for tag in TAGS))))
        name, version, arch = self.tags["NAME"], f"{self.tags['VERSION']}-{self.tags['RELEASE']}", self.tags["ARCH"]
        sha256 = digest(package, "sha256")
        self.namespace = f"https://kernel-thp.invalid/spdx/{package.name}-{sha256['checksumValue']}"
        self.parts = [
            part(
                "SPDXRef-Package",
                name,
                version,
                packageFileName=package.name,
                supplier=SUPPLIER,
                licenseDeclared=self.tags["LICENSE"],
                summary=self.tags["SUMMARY"],
                homepage=self.tags["URL"],
                checksums=[sha256],
                sourceInfo=f"built from {self.tags['SOURCERPM']}",
                externalRefs=[reference("PACKAGE-MANAGER", "purl", f"pkg:rpm/kernel-thp/{name}@{version}?arch={arch}")],
            )
        ]
        self.files: list[dict[str, Any]] = []
        self.relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Package")]
        needed = header(package, "[%{REQUIRENEVRS}\\n]")
        for number, text in enumerate(sorted({line for line in needed if not line.startswith(("rpmlib(", "config("))})):
            what, _, condition = text.partition(" ")
            self.add(f"SPDXRef-Requires-{number}", what, condition or NONE, "DEPENDS_ON")

    def add(self, identifier: str, name: str, version: str, relation: str, **more: object) -> None:
        """Add something that the package needs or was made from."""
        self.parts.append(part(identifier, name, version, **more))
        self.relations.append(("SPDXRef-Package", relation, identifier))

    def from_linux(self, source: lock.Source, patches: Sequence[Path]) -> None:
        """Say that the package was made from the pinned kernel and these patches."""
        url = KERNEL_ORG.format(major=source.version.split(".")[0], version=source.version)
        self.add(
            "SPDXRef-Linux",
            "linux",
            source.version,
            "GENERATED_FROM",
            downloadLocation=url if source.kind == lock.KERNEL_ORG else NONE,
            supplier=SUPPLIERS.get(source.kind, NONE),
            licenseDeclared="GPL-2.0-only WITH Linux-syscall-note",
            checksums=[{"algorithm": "SHA256", "checksumValue": source.sha256}],
            packageFileName=source.path.name,
            sourceInfo=f"kind {source.kind} of SOURCES/sources.lock",
            externalRefs=[
                reference("SECURITY", "cpe23Type", f"cpe:2.3:o:linux:linux_kernel:{source.version}:*:*:*:*:*:*:*")
            ],
        )
        for number, path in enumerate(patches, 1):
            identifier = f"SPDXRef-Patch-{number}"
            # SPDX asks for SHA-1 of a file, whatever else there is.
            self.files.append(
                {
                    "SPDXID": identifier,
                    "fileName": f"./{path.relative_to(ROOT)}",
                    "fileTypes": ["SOURCE"],
                    "checksums": [digest(path, "sha1"), digest(path, "sha256")],
                    "licenseConcluded": NONE,
                    "copyrightText": NONE,
                }
            )
            self.relations.append((identifier, "PATCH_FOR", "SPDXRef-Linux"))

    def with_libc(self) -> None:
        """Say that the build host's C library is linked into the programs of the package."""
        name, version = platform.libc_ver()
        self.add("SPDXRef-Libc", name, version, "STATIC_LINK", licenseDeclared="LGPL-2.1-or-later")

    def json(self) -> str:
        # The date of the build, which is that of the changelog, so that the same package has the same bill.
        created = datetime.fromtimestamp(int(self.tags["BUILDTIME"]), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        document = {
            "spdxVersion": "SPDX-2.3",
            "dataLicense": "CC0-1.0",
            "SPDXID": "SPDXRef-DOCUMENT",
            "name": "{NAME}-{VERSION}-{RELEASE}.{ARCH}".format(**self.tags),
            "documentNamespace": self.namespace,
            "creationInfo": {"created": created, "creators": [SUPPLIER, "Tool: kernel-thp scripts/sbom.py"]},
            "packages": self.parts,
            "files": self.files,
            "relationships": [
                {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
                for one, kind, other in self.relations
            ],
        }
        return json.dumps(document, indent=1) + "\n"


def write(package: Path, repo: Path, source: lock.Source | None, patches: Sequence[Path]) -> Path:
    """Write the bill of a package in a repository; packages that are not made from the kernel have no source."""
    bill = Bill(package)
    if source:
        bill.from_linux(source, patches)
    if bill.tags["NAME"].endswith("-selftests"):
        bill.with_libc()
    path = repo / FOLDER / f"{package.name.removesuffix('.rpm')}.spdx.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(bill.json())
    return path
