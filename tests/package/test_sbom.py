"""Each package has a bill of materials that is valid SPDX, and a statement about who built it; both are signed for."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from scripts import lock, provenance, repository, sbom, series, signing
from scripts.console import ROOT
from tests.package.conftest import FLAVOUR, Packages, run

REPO = FLAVOUR.repo
BILLS = sorted((REPO / sbom.FOLDER).glob("*.json"))
STATEMENTS = sorted((REPO / provenance.FOLDER).glob("*.json"))


def bill(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((REPO / sbom.FOLDER / f"{path.name.removesuffix('.rpm')}.spdx.json").read_text())
    return found


def test_every_package_has_its_bill(packages: Packages) -> None:
    assert {path.name.removesuffix(".spdx.json") for path in BILLS} == {path.stem for path in packages.paths.values()}
    for name, path in packages.paths.items():
        main = bill(path)["packages"][0]
        assert (main["name"], main["packageFileName"]) == (name, path.name)
        assert main["checksums"] == [{"algorithm": "SHA256", "checksumValue": lock.sha256(path)}]


@pytest.mark.parametrize("path", BILLS, ids=lambda path: path.name)
def test_bill_is_valid(path: Path) -> None:
    assert [message.validation_message for message in validate_full_spdx_document(parse_file(str(path)))] == []


def test_validator_sees_what_is_wrong(tmp_path: Path) -> None:
    broken = json.loads(BILLS[0].read_text())
    broken["packages"][0]["licenseDeclared"] = "no such licence"
    broken["relationships"].append(
        {"spdxElementId": "SPDXRef-Nothing", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-Package"}
    )
    path = tmp_path / "broken.spdx.json"
    path.write_text(json.dumps(broken))
    assert len(validate_full_spdx_document(parse_file(str(path)))) >= 2


def test_bill_of_what_is_made_from_the_kernel_names_source_and_patches(packages: Packages) -> None:
    found = bill(packages.paths["kernel-thp-selftests"])
    (linux,) = (part for part in found["packages"] if part["SPDXID"] == "SPDXRef-Linux")
    assert (linux["versionInfo"], linux["checksums"][0]["checksumValue"]) == (lock.used().version, lock.used().sha256)
    assert ("Debian" in linux["supplier"]) == (lock.used().kind in ("debian", "linux-source"))
    assert f":linux_kernel:{lock.used().version}:" in linux["externalRefs"][0]["referenceLocator"]
    patches = series.Series(ROOT / "patches" / lock.used().series).patches()
    assert [(ROOT / file["fileName"]).resolve() for file in found["files"]] == patches
    libc = [relation for relation in found["relationships"] if relation["relationshipType"] == "STATIC_LINK"]
    assert len(libc) == 1
    assert bill(packages.paths["thp-tools"])["files"] == []


def test_statements_are_about_every_package_as_it_is(packages: Packages) -> None:
    subjects = [subject for path in STATEMENTS for subject in json.loads(path.read_text())["subject"]]
    found = {subject["name"]: subject["digest"]["sha256"] for subject in subjects}
    assert found == {path.name: lock.sha256(path) for path in packages.paths.values()}
    assert len(subjects) == len(found)


@pytest.mark.parametrize("path", STATEMENTS, ids=lambda path: path.name)
def test_statement_says_from_what_and_by_what(path: Path) -> None:
    statement = json.loads(path.read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    built, run = statement["predicate"]["buildDefinition"], statement["predicate"]["runDetails"]
    materials = built["resolvedDependencies"]
    assert any("gitCommit" in material.get("digest", {}) for material in materials)
    kernel = [material["digest"]["sha256"] for material in materials if material["name"].startswith("linux-")]
    assert kernel == ([] if path.name.startswith(("tools", "tuned", "release")) else [lock.used().sha256])
    assert {"system", "gcc", "rpmbuild"} <= run["builder"]["version"].keys()
    assert run["metadata"]["startedOn"] <= run["metadata"]["finishedOn"]


def test_they_are_signed_for(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    gpg = ["gpg", "--batch", "--homedir", str(tmp_path)]
    subprocess.run([*gpg, "--quiet", "--import", str(REPO / signing.KEY_NAME)], check=True, capture_output=True)
    sums = REPO / repository.SUMS
    assert run(*gpg, "--verify", f"{sums}.asc", str(sums)).returncode == 0
    done = subprocess.run(["sha256sum", "--check", "--strict", "--quiet", sums.name], cwd=REPO, capture_output=True)
    assert done.returncode == 0, done.stdout
    listed = {line.split("  ")[1] for line in sums.read_text().splitlines()}
    assert {str(path.relative_to(REPO)) for path in (*BILLS, *STATEMENTS)} < listed
