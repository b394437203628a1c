"""Reboot a host within a timeout, as ansible.builtin.reboot does, and check at once which kernel it booted.

A kernel on trial reboots by itself unless it is confirmed. If another task confirmed it, each host of a batch would
wait until all others have rebooted, including those that wait for a fork and one that does not return.
"""

from __future__ import annotations

import datetime
import shlex
import time

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action.reboot import ActionModule as Reboot
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import breaker, process
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Contact, Result, Variables

HOLDING, BOOT = "kernel_thp.fleet.record", "kernel_thp.fleet.boot"
ARGUMENTS = {
    "state": {"type": "str", "choices": ["confirmed", "returned"], "required": True},
    "uname": {"type": "str", "default": ""},
    "panic": {"type": "int", "default": 30},
    "panic_on_lockup": {"type": "bool", "default": True},
    "left": {"type": "str", "default": ""},
    "reboot_timeout": {"type": "int", "default": Reboot.DEFAULT_REBOOT_TIMEOUT},
    "msg": {"type": "str", "default": Reboot.DEFAULT_REBOOT_MESSAGE},
}
# For Ansible's own action; the others are for the module boot.
OWN = ("reboot_timeout", "msg")
SHUTDOWN = "/sbin/shutdown -r now"
UNIT = "kernel-thp-forced-reboot"
# For a shutdown that hangs. Without it, systemd ends one after half an hour, when the host has been given up.
# It lasts until systemd kills what is left, because it does not depend on anything that a shutdown stops.
BEHIND = (
    "/usr/bin/systemd-run",
    "--quiet",
    "--collect",
    f"--unit={UNIT}",
    "--property=DefaultDependencies=no",
    "/bin/sh",
    "-c",
)
# First without waiting for services, then without systemd; a disk that is gone must not hold up the last one.
FORCED = "sleep {seconds}; systemctl reboot --force; sync & sleep 60; echo b > /proc/sysrq-trigger"
# A shutdown that was refused, for example while packages are installed, is not forced.
RELENT = f"/usr/bin/systemctl stop {UNIT}"
POLL = 1.0


class Rebooting(Reboot):  # type: ignore[misc]
    """As Ansible's own, for the run that holds the host; it ends when the module boot has run on the host."""

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        _, given = self.validate_argument_spec(argument_spec=ARGUMENTS)
        order = f"{SHUTDOWN} {shlex.quote(given['msg'])}"
        if given["state"] == "returned":
            order = f"{_forced(given['reboot_timeout'] // 2)}; {order} || {{ {RELENT}; false; }}"
        self._task.args = {"reboot_timeout": given["reboot_timeout"], "reboot_command": order}
        deadline = time.monotonic() + given["reboot_timeout"]
        result: Result = super().run(tmp, task_vars)
        if result.get("failed") and result.get("rebooted"):
            # Ansible sets `rebooted` once the command went through, even if the host never answered again.
            why = f"the host did not come back after the reboot: {result.get('msg')}"
            return {**result, "lost_contact": True, "msg": why}
        if result.get("failed") and result.get("reboot") is False:
            # Ansible says this, and no more, of a host that was gone when it was asked which boot it is in.
            return {**result, "lost_contact": True}
        if result.get("failed") or self._task.check_mode:
            return result
        arguments = {name: value for name, value in given.items() if name not in OWN}
        return {**result, **self._arrived(arguments, deadline, task_vars)}

    def _arrived(self, arguments: Result, deadline: float, task_vars: Variables | None) -> Result:
        """Run the module boot. The network may come and go while the host boots; a second call does no harm."""
        while True:
            try:
                # It is from before the reboot, and may be gone.
                self._remove_tmp_path(self._connection._shell.tmpdir)
                self._connection._shell.tmpdir = None
                found: Result = self._execute_module(
                    module_name=BOOT, module_args={**arguments, "run": process.this_run()}, task_vars=task_vars
                )
            except AnsibleConnectionFailure:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(POLL)
            else:
                return {**found, "changed": True}

    def get_distribution(self, task_vars: Variables) -> dict[str, str]:
        """Skip the program that Ansible runs for this: preflight has checked that the host is Linux."""
        return {"name": "linux", "version": "", "family": "linux"}

    def perform_reboot(self, task_vars: Variables, distribution: Result) -> Result:
        """Check the holder first. All other changes are made by our modules, which check it themselves."""
        arguments = {"state": "checked", "run": process.this_run()}
        found: Result = self._execute_module(module_name=HOLDING, module_args=arguments, task_vars=task_vars)
        if found.get("failed"):
            began = datetime.datetime.now(datetime.timezone.utc)
            return {"failed": True, "rebooted": False, "start": began, "msg": found.get("msg", "")}
        done: Result = super().perform_reboot(task_vars, distribution)
        return done


def _forced(seconds: int) -> str:
    """Return a command that ends a shutdown that takes longer, and leaves time for a boot."""
    return shlex.join([*BEHIND, FORCED.format(seconds=seconds)])


class Rebooted(Contact, Rebooting):
    """As above, but losing the host fails."""

    def _own_limit(self) -> int:
        return int(self._task.args.get("reboot_timeout", self.DEFAULT_REBOOT_TIMEOUT))


class ActionModule(Rebooted):
    """As above, unless the new kernel has failed too many hosts. A host that is rolled back reboots in any case.

    A batch with more hosts than forks, or than the task's throttle, reboots them one after the other.
    """

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        if why := breaker.tripped(self._task) if self._task.args.get("state") == "confirmed" else None:
            return {"failed": True, "rebooted": False, "msg": why}
        result = super().run(tmp, task_vars)
        breaker.tell(self._task, task_vars or {}, result)
        return result
