#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Query the dnf repository for exact packages, and check every signature."""

from __future__ import annotations

DOCUMENTATION = """
module: repository
short_description: Find the packages of a release, and check their signatures
version_added: 1.0.0
description:
  - With O(state=resolved), refreshes the repositories' metadata, checks its signature, and returns exact packages.
  - With O(state=downloaded), downloads packages with their dependencies and checks each signature. Installs nothing.
author: kernel-thp project (@kernel-thp)
options:
  state:
    description: What to do.
    choices: [resolved, downloaded]
    default: resolved
    type: str
  repositories:
    description: The ids of the repositories, as in C(/etc/yum.repos.d).
    type: list
    elements: str
    default: [kernel-thp]
  check_metadata:
    description: Whether the metadata has to be signed; overrides the host's own configuration.
    type: bool
    default: true
  release:
    description: Version and release of the kernel, such as V(6.1.187-1). Empty for the newest.
    type: str
    default: ""
  kernel_packages:
    description: Packages that must have that release.
    type: list
    elements: str
    default: []
  packages:
    description: Packages of which the newest is chosen; with O(state=downloaded), the packages to download.
    type: list
    elements: str
    default: []
  lock_timeout:
    description: Seconds to wait for another package transaction.
    type: int
    default: 300
attributes:
  check_mode: {support: full, description: "Uses a temporary cache, and downloads no packages."}
"""

EXAMPLES = """
- name: Find the newest release
  kernel_thp.fleet.repository:
    kernel_packages: [kernel-thp-cloud, kernel-thp-cloud-core, kernel-thp-cloud-modules]
  register: found
"""

RETURN = """
target:
  description: The release, its C(uname -r), and the full names of all packages.
  returned: state is resolved
  type: dict
"""

from dataclasses import asdict

from ansible_collections.kernel_thp.fleet.plugins.module_utils import packages, repository
from ansible_collections.kernel_thp.fleet.plugins.module_utils.module import Parameters, Result, main

ARGUMENTS = {
    "state": {"type": "str", "choices": ["resolved", "downloaded"], "default": "resolved"},
    "repositories": {"type": "list", "elements": "str", "default": ["kernel-thp"]},
    "check_metadata": {"type": "bool", "default": True},
    "release": {"type": "str", "default": ""},
    "kernel_packages": {"type": "list", "elements": "str", "default": []},
    "packages": {"type": "list", "elements": "str", "default": []},
    "lock_timeout": {"type": "int", "default": 300},
}


def work(parameters: Parameters, check: bool) -> Result:
    if parameters["state"] == "downloaded":
        wanted = packages.missing(parameters["packages"])
        if wanted and not check:
            packages.download(wanted, parameters["lock_timeout"])
        return {"changed": False}
    packages.wait_idle(parameters["lock_timeout"])
    with repository.opened(parameters["repositories"], parameters["check_metadata"], check) as found:
        found.refresh()
        target = found.target(parameters["release"], parameters["kernel_packages"], parameters["packages"])
    return {"target": asdict(target)}


if __name__ == "__main__":
    main(ARGUMENTS, work)
