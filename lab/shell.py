"""Start a host from the present image and open a shell on it, also after a reboot. It stops when the shell ends."""

from __future__ import annotations

import argparse
import subprocess
from contextlib import ExitStack

from lab import image, repo
from lab.host import Host
from lab.vm import RUN, SSH_FAILED, DeadHost, Vm
from scripts.console import main, say


def shell() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    with ExitStack() as stack:
        vm = stack.enter_context(Vm(image.build(), RUN / "shell", "shell"))
        say(f"console: {vm.console}")
        vm.wait_ssh()
        if repo.made():
            Host(vm).use_repository(stack.enter_context(repo.served()))
            say(f"dnf on this host has the packages of {repo.REPO}")
        while True:
            boot = vm.boot_id()
            code = subprocess.run(vm.ssh_command("-t")).returncode
            if code != SSH_FAILED:
                return code
            try:
                vm.wait_ssh(not_boot=boot)
            except DeadHost:
                if vm.powered_off:
                    return 0
                raise


if __name__ == "__main__":
    main(shell)
