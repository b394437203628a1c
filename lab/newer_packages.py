"""Packages that are newer than the present ones: a second release, a repack of it in a minute, and newer profiles.

Only the second release is a kernel of its own that can be booted. Compiling it takes a quarter of an hour even with a
full compiler cache, and is done once for each state of the sources.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

from lab import repo
from scripts import lock, repository, rpms
from scripts.console import BUILD, UserError, run_logged
from scripts.flavours import CLOUD

# The release number of the newer kernel, and what a distribution appends to that of the newer profiles.
SPIN = rpms.spin() + 1
DIST = ".2"
PARTS = (CLOUD.core, f"{CLOUD.package}-modules")
# Of %install, only the step that divides the modules stays; the repack does not unpack, compile or install sources.
DIVIDE = re.compile(r"^python3 %\{SOURCE81\}.*?^done$", re.MULTILINE | re.DOTALL)
SOURCE_TO_SCRIPTLETS = re.compile(
    r"^%prep$.*?(?=^%if %\{with kernel\}\n%post -n %\{kernel\}-core$)", re.MULTILINE | re.DOTALL
)
DEVEL = "%global with_devel  1"
REPACK = """\
%prep
%setup -q -T -c -n linux-%{{base}}
# The host's macros decide where a licence is installed, so look for it.
find {files} -name 'COPYING-*' -exec cp -p {{}} COPYING-%{{uname}} ';'

%install
mkdir -p %{{buildroot}}/lib/modules
cp -a {files}/lib/modules/* %{{buildroot}}%{{modules_dir}}
depmod -b %{{buildroot}} %{{uname}}
modules=%{{buildroot}}%{{modules_dir}}
{divide}

"""


def second_release() -> Path:
    """Return a signed repository with the present packages and a second release of the kernel, which can be booted."""
    kernel = rpms.kernel()
    stage = replace(kernel, options=(*kernel.options, f"--define=spin {SPIN}"), root=BUILD / "rpmbuild-second")
    return repo.beside_present(stage, BUILD / "repo-second")


def newer_profiles() -> Path:
    """Return a signed repository with the present packages and newer tuned profiles, for the same kernel."""
    stage = replace(rpms.tuned_profiles(), options=(f"--define=dist {DIST}",), root=BUILD / "rpmbuild-newer")
    return repo.beside_present(stage, BUILD / "repo-newer")


def repacked_release(folder: Path) -> Path:
    """Make the second release from the present packages without compiling; return its signed repository.

    Scriptlets, dependencies and file lists are those of the real spec for that release. The kernel and its modules are
    the present ones, in directories of the new name. So the packages can be installed and removed, but not booted.
    """
    files = folder / "files"
    files.mkdir(parents=True)
    for part in PARTS:
        (package,) = CLOUD.repo.glob(f"{part}-[0-9]*.rpm")
        rpms.extract(package, files)
    rpms.stage_sources(rpms.kernel(), folder / "SOURCES")
    spec = folder / "kernel-thp.spec"
    spec.write_text(_repacking_spec(files))
    command = ["rpmbuild", "-bb", "--nodeps", "--without=selftests", "--without=debuginfo"]
    command += [
        f"--define=_topdir {folder}",
        f"--define=base {lock.used().version}",
        f"--define=spin {SPIN}",
        str(spec),
    ]
    run_logged(command, folder / "rpmbuild.log", "rpmbuild of the repacked release", "fix what the log reports")
    repository.make(sorted(folder.glob("RPMS/*/*.rpm")), folder / "repo", "repack\n")
    for name in ("BUILD", "BUILDROOT", "RPMS", "files"):
        shutil.rmtree(folder / name, ignore_errors=True)
    return folder / "repo"


def _repacking_spec(files: Path) -> str:
    """Return the real spec, changed to take the files of the present packages."""
    text = rpms.SPEC.read_text()
    divide = DIVIDE.search(text)
    if divide is None or not SOURCE_TO_SCRIPTLETS.search(text) or DEVEL not in text:
        raise UserError(f"{rpms.SPEC} no longer has the form that {__name__} expects", "adapt its patterns")
    text = text.replace(DEVEL, "# This repack has no -devel.")
    repack = REPACK.format(files=files, divide=divide[0])
    return SOURCE_TO_SCRIPTLETS.sub(lambda _: repack, text)
