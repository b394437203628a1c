"""thp-tools: its files, and that the installed program runs from its directory."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from scripts import rpms
from scripts.console import ROOT
from tests.package.conftest import Packages, run
from tools.thp_validate.document import json_schema

# What distributions with their own Python macros define.
SITELIB = "/usr/lib/python3.99/site-packages"


@pytest.fixture(scope="module")
def root(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tools")
    rpms.extract(packages.paths["thp-tools"], folder)
    return folder


def test_program_runs_and_prints_what_its_schema_specifies(root: Path) -> None:
    done = run(str(root / "usr" / "bin" / "thp-validate"), "--json")
    assert done.returncode in (0, 1, 2), done.stderr
    schema = json.loads((root / "usr" / "share" / "thp-tools" / "thp-validate.schema.json").read_text())
    assert schema == json_schema()
    jsonschema.validate(json.loads(done.stdout), schema)


def test_running_leaves_nothing_behind(root: Path) -> None:
    assert run(str(root / "usr" / "bin" / "thp-validate")).returncode in (0, 1, 2)
    assert list(root.rglob("*.pyc")) == []


def test_every_module_is_there(packages: Packages) -> None:
    files = packages.lines("thp-tools", "--list")
    for path in (ROOT / "tools" / "thp_validate").glob("*.py"):
        assert f"/usr/share/thp-tools/thp_validate/{path.name}" in files
    assert any(name.startswith("/usr/share/man/man1/thp-validate.1") for name in files)
    assert "/usr/share/bash-completion/completions/thp-validate" in files
    assert any(name.endswith("/sos/report/plugins/thp.py") for name in files)


def test_python_of_the_oldest_host_is_required(packages: Packages) -> None:
    assert "python3 >= 3.9" in packages.lines("thp-tools", "--requires")


def test_plugin_goes_to_the_python_of_the_distribution() -> None:
    done = run("rpmspec", "-P", f"--define=python3_sitelib {SITELIB}", str(rpms.TOOLS_SPEC))
    assert done.returncode == 0, done.stderr
    assert f"{SITELIB}/sos/report/plugins/thp.py" in done.stdout
