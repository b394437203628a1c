"""A kernel with the upstream shrinker for a lab host: the distribution's 6.12, in its build for virtual machines.

It is not in the image, whose only kernel has to be the stock one; a test that needs it installs it.
"""

from __future__ import annotations

import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

from lab import debs
from lab.vm import Vm
from scripts.console import BUILD, UserError

META = "linux-image-6.12-cloud-amd64"
IMAGE = re.compile(r"^Depends:.*?(linux-image-(6\.12\.\S+-cloud-amd64))\b", re.MULTILINE)
GUEST = "/var/tmp/upstream"
INSTALL_TIMEOUT = 600.0


def newest() -> tuple[str, str]:
    """Return the name of the package and of its kernel, from apt on this machine."""
    done = subprocess.run(["apt-cache", "show", "--no-all-versions", META], capture_output=True, text=True, check=False)
    match = IMAGE.search(done.stdout)
    if match is None:
        raise UserError(f"apt on this machine does not know {META}", "run `apt-get update`, then this again")
    return match[1], match[2]


def install(vm: Vm) -> str:
    """Install it beside the host's other kernels, by kernel-install as an RPM would; return its `uname -r`."""
    name, uname = newest()
    with tempfile.NamedTemporaryFile(dir=BUILD, suffix=".tar") as archive:
        with tarfile.open(archive.name, "w") as content:
            content.add(debs.package(name), "upstream.deb")
        vm.unpack(Path(archive.name), GUEST)
    # Copied, not moved: with SELinux, what is moved stays labelled as somebody's temporary files.
    target = f"/lib/modules/{uname}"
    vm.run(
        f"cd {GUEST} && dpkg-deb -x upstream.deb . && cp -r lib/modules/{uname} /lib/modules/"
        f" && for file in vmlinuz config System.map; do cp boot/$file-{uname} {target}/$file || exit; done"
        f" && kernel-install add {uname} {target}/vmlinuz && rm -r {GUEST}",
        timeout=INSTALL_TIMEOUT,
    )
    return uname
