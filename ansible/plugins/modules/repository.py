#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Query the dnf repository for exact packages, and check every signature."""

from __future__ import annotations

DOCUMENTATION = """
module: repository
short_description: Find the packages of a release, and check their signatures
version_added: 1.0.0
description:
  - With O(state=resolved), refreshes the repositories' metadata, checks its signature, and returns exact packages. With
    O(url), it sets the repository up first.
  - With O(state=downloaded), downloads packages with their dependencies and checks each signature. Installs nothing.
  - No other repository is used, and dnf imports no key that is not in the rpm database.
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
  dependencies:
    description: The ids of further repositories, from which packages may come that others need.
    type: list
    elements: str
    default: []
  url:
    description: Set the only one of O(repositories) up, at this address, which begins with https:// or file:///.
    type: str
    default: ""
  key:
    description: The key of that repository in ASCII armour, or the address where the host gets it.
    type: str
    default: ""
  fingerprint:
    description: The whole fingerprint of that key. A key with another one is refused, and so is a second key beside it.
    type: str
    default: ""
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
  check_mode:
    support: full
    description: >-
      Uses a temporary cache and, with O(url), a temporary file of the repository. Has dnf resolve the installation
      instead of downloading it.
"""

EXAMPLES = """
- name: Find the newest release
  kernel_thp.fleet.repository:
    kernel_packages: [kernel-thp-cloud, kernel-thp-cloud-core, kernel-thp-cloud-modules]
  register: found
"""

RETURN = """
diff:
  description: What is set up, or would be, file by file, and the key that rpm comes to trust.
  returned: state is resolved
  type: list
  elements: dict
target:
  description: The release, its C(uname -r), the full names of all packages, and the repositories they come from.
  returned: state is resolved
  type: dict
"""

from dataclasses import asdict

from ansible_collections.kernel_thp.fleet.plugins.module_utils import packages, repository
from ansible_collections.kernel_thp.fleet.plugins.module_utils.module import Parameters, Result, main
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.module_utils.repo_setup import Wanted

ARGUMENTS = {
    "state": {"type": "str", "choices": ["resolved", "downloaded"], "default": "resolved"},
    "repositories": {"type": "list", "elements": "str", "default": ["kernel-thp"]},
    "dependencies": {"type": "list", "elements": "str", "default": []},
    "url": {"type": "str", "default": ""},
    "key": {"type": "str", "default": "", "no_log": False},
    "fingerprint": {"type": "str", "default": ""},
    "check_metadata": {"type": "bool", "default": True},
    "release": {"type": "str", "default": ""},
    "kernel_packages": {"type": "list", "elements": "str", "default": []},
    "packages": {"type": "list", "elements": "str", "default": []},
    "lock_timeout": {"type": "int", "default": 300},
}


def wanted(parameters: Parameters) -> Wanted | None:
    if not parameters["url"]:
        return None
    names = parameters["repositories"]
    if len(names) != 1:
        what = f"thp_preflight_repository_url is for one repository, and thp_preflight_repositories has {len(names)}"
        raise Problem(what, "name one, or set the repositories up yourself")
    options = {name: parameters[name] for name in ("url", "key", "fingerprint", "check_metadata")}
    return Wanted(names[0], **options)


def work(parameters: Parameters, check: bool) -> Result:
    patience = parameters["lock_timeout"]
    sources = [*parameters["repositories"], *parameters["dependencies"]]
    if parameters["state"] == "downloaded":
        missing = packages.missing(parameters["packages"])
        if missing and not check:
            packages.download(missing, patience, sources)
        return {"changed": False}
    packages.wait_idle(patience)
    with repository.opened(
        parameters["repositories"], parameters["check_metadata"], check, wanted(parameters)
    ) as found:
        found.refresh()
        kernel, others = parameters["kernel_packages"], parameters["packages"]
        target = found.target(parameters["release"], kernel, others, parameters["dependencies"])
        if check:
            found.rehearse(target)
    return {"changed": bool(found.set_up), "diff": found.set_up, "target": asdict(target)}


if __name__ == "__main__":
    main(ARGUMENTS, work)
