"""Make the packages of the next release without compiling a kernel: a repack of the present ones.

The scriptlets, dependencies and file lists are those the real spec has for that release. The kernel and its modules are
the present ones in directories of the new name, so these packages can be installed and removed, but not booted.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from scripts import lock, rpms
from scripts.console import UserError, run_logged

RELEASE = 2
PARTS = ("kernel-thp-core", "kernel-thp-modules")
# The step of %install that divides the modules is kept; unpacking, compiling and installing are not.
DIVIDE = re.compile(r"^python3 %\{SOURCE81\}.*?^done$", re.MULTILINE | re.DOTALL)
SOURCE_TO_SCRIPTLETS = re.compile(r"^%prep$.*?(?=^%if %\{with kernel\}\n%post core$)", re.MULTILINE | re.DOTALL)
REPACK = """\
%prep
%setup -q -T -c -n linux-%{{base}}
# The place of a licence is up to the macros of the host, so it is looked for.
find {files} -name 'COPYING-*' -exec cp -p {{}} COPYING-%{{uname}} ';'

%install
mkdir -p %{{buildroot}}/lib/modules
cp -a {files}/lib/modules/* %{{buildroot}}%{{modules_dir}}
depmod -b %{{buildroot}} %{{uname}}
{divide}

"""


def repacking_spec(files: Path) -> str:
    """Return the real spec with another way to its files."""
    text = rpms.SPEC.read_text()
    divide = DIVIDE.search(text)
    if divide is None or not SOURCE_TO_SCRIPTLETS.search(text):
        raise UserError(f"{rpms.SPEC} no longer has the form that {__name__} expects", "adapt its patterns")
    text = text.replace("%global with_devel  1", "# This repack has no -devel.")
    repack = REPACK.format(files=files, divide=divide[0])
    return SOURCE_TO_SCRIPTLETS.sub(lambda _: repack, text)


def unpack(package: Path, folder: Path) -> None:
    with subprocess.Popen(["rpm2cpio", str(package)], stdout=subprocess.PIPE) as content:
        subprocess.run(["cpio", "-idm", "--quiet"], stdin=content.stdout, cwd=folder, check=True)
    if content.returncode != 0:
        raise UserError(f"{package} cannot be unpacked", "run `make rpms`")


def build(folder: Path, repo: Path) -> None:
    """Make a signed repository with the next release, from the packages of a repository with the present one."""
    files = folder / "files"
    files.mkdir(parents=True)
    for part in PARTS:
        (package,) = repo.glob(f"{part}-[0-9]*.rpm")
        unpack(package, files)
    rpms.stage_sources(rpms.kernel(), folder / "SOURCES")
    spec = folder / "kernel-thp.spec"
    spec.write_text(repacking_spec(files))
    command = ["rpmbuild", "-bb", "--nodeps", "--without=selftests", f"--define=_topdir {folder}"]
    command += [f"--define=base {lock.used().version}", f"--define=spin {RELEASE}", str(spec)]
    run_logged(command, folder / "rpmbuild.log", "rpmbuild of the next release", "fix what the log says")
    rpms.make_repository(sorted(folder.glob("RPMS/*/*.rpm")), folder / "repo", "repack\n")
    for name in ("BUILD", "BUILDROOT", "RPMS", "files"):
        shutil.rmtree(folder / name, ignore_errors=True)
