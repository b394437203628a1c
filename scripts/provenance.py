"""What built the packages, from what: an in-toto statement with SLSA's predicate for each run of rpmbuild.

What is true of a build is noted when it is made. The statement is written when its packages have been signed, and their
hashes are final.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from scripts import lock
from scripts.console import ROOT

FOLDER = "provenance"
BUILD_TYPE = "https://kernel-thp.invalid/rpmbuild/v1"
TOOLS = ("gcc", "ld", "rpmbuild", "pahole", "openssl")
OPTIONS = ("SPIN", "REPO_URL")


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def first_line(*command: str) -> str:
    """Return the first line that a command prints, or nothing if there is no such command."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    except OSError:
        return ""
    return done.stdout.partition("\n")[0] if done.returncode == 0 else ""


def versions() -> dict[str, str]:
    """Return what the tools of this host say of their versions."""
    asked = {tool: first_line(tool, "version" if tool == "openssl" else "--version") for tool in TOOLS}
    return {tool: found for tool, found in asked.items() if found}


def system() -> str:
    text = Path("/etc/os-release").read_text() if Path("/etc/os-release").exists() else ""
    name = re.search(r'^PRETTY_NAME="?([^"\n]*)', text, re.MULTILINE)
    return name[1] if name else "unknown"


def commit() -> dict[str, Any]:
    """Return the commit of these sources, and whether they differ from it."""
    found = first_line("git", "rev-parse", "HEAD")
    if not found:
        return {"name": "kernel-thp", "annotations": {"commit": "none: not a git checkout"}}
    changed = bool(first_line("git", "status", "--porcelain"))
    return {"name": "kernel-thp", "digest": {"gitCommit": found}, "annotations": {"changed": changed}}


def note(options: Sequence[str], inputs: str, began: str, source: lock.Source | None) -> dict[str, Any]:
    """Return the predicate of a build that has just ended. `inputs` is the hash of all its inputs."""
    materials = [commit()]
    if source:
        materials.append(
            {"name": source.path.name, "digest": {"sha256": source.sha256}, "annotations": {"kind": source.kind}}
        )
    given = {name: os.environ[name] for name in OPTIONS if os.environ.get(name)}
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {"rpmbuild": list(options), "environment": given},
            "internalParameters": {"inputs": {"sha256": inputs}},
            "resolvedDependencies": materials,
        },
        "runDetails": {
            "builder": {
                "id": "https://kernel-thp.invalid/builder/own-host",
                "version": {"system": system(), **versions()},
            },
            "metadata": {"startedOn": began, "finishedOn": now()},
        },
    }


def write(name: str, predicate: Mapping[str, Any], packages: Sequence[Path], repo: Path) -> Path:
    """Write the statement about the signed packages of a build."""
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": path.name, "digest": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}}
            for path in packages
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": predicate,
    }
    path = repo / FOLDER / f"{name}.intoto.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(statement, indent=1) + "\n")
    return path
