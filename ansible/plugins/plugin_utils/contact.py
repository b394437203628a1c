"""Turn losing a host in the middle of a task, or its silence, into an ordinary failure.

Ansible does not count an unreachable host as failed: no rescue runs for it, and the next batch continues. A rollout has
to wait for such a host and roll it back, so its tasks fail instead. Ansible also waits forever for a host that froze
with the connection open; here every host has to answer in time.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import process

Result = dict[str, Any]
Variables = dict[str, Any]

# ssh gives up after a minute without an answer of the server. It uses the first value it is given, and these come last,
# so values that an operator set in Ansible win.
KEEP_ALIVE = "-o ServerAliveInterval=15 -o ServerAliveCountMax=4"
OPTIONS = ("ssh_extra_args", "sftp_extra_args", "scp_extra_args")
# The server may still answer on a host whose disk is gone, and ssh notices nothing. No step takes as long as this.
STEP_TIMEOUT = 3600
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Connection(Protocol):
    """The part of Ansible's connection that is used here."""

    def get_option(self, option: str) -> object: ...

    def set_option(self, option: str, value: object) -> None: ...


class Contact:
    """A mixin for action plugins that turns `unreachable` and silence into `failed`, with `lost_contact`."""

    # Whether the step has a timeout; an operator's own command has none.
    limited = True
    _limit = 0
    _gone = False

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        keep_alive(self._connection)  # type: ignore[attr-defined]
        self._limit = self._seconds(task_vars or {})
        try:
            result: Result = super().run(tmp, task_vars)  # type: ignore[misc]
        except AnsibleConnectionFailure as error:
            result = {"unreachable": True, "msg": str(error)}
        self._gone = bool(result.get("unreachable"))
        return lost(str(result.get("msg", ""))) if self._gone else result

    def cleanup(self, force: bool = False) -> None:
        """Skip Ansible's cleanup after the task for a lost host: it would mark the host unreachable after all."""
        if self._gone:
            return
        with suppress(AnsibleConnectionFailure):
            super().cleanup(force)  # type: ignore[misc]

    def _seconds(self, variables: Variables) -> int:
        """Return the timeout for an answer; 0 is none, or that Ansible itself watches the task."""
        if not self.limited or self._task.timeout:  # type: ignore[attr-defined]
            return 0
        templar = self._templar  # type: ignore[attr-defined]
        limits = (int(templar.template(variables.get("thp_fleet_step_timeout", STEP_TIMEOUT))), self._own_limit())
        return min(filter(None, limits), default=0)

    def _own_limit(self) -> int:
        """Return how long a single answer may take because the task has less time than a step; 0 if it has not.

        On a host whose disk is gone, sshd accepts a connection and nothing answers.
        """
        return 0

    def boot_id(self) -> str:
        """Return the id of the boot; a shell may print something of its own before."""
        output = str(self._low_level_execute_command(f"cat {BOOT_ID}", sudoable=False)["stdout"])
        return "".join(output.split()[-1:])

    # Everything an action plugin does on a host goes through these two

    def _low_level_execute_command(self, *given: object, **named: object) -> Result:
        process.end_if_orphaned()
        with answer_within(self._limit):
            return dict(super()._low_level_execute_command(*given, **named))  # type: ignore[misc]

    def _transfer_file(self, *given: object, **named: object) -> object:
        process.end_if_orphaned()
        with answer_within(self._limit):
            return super()._transfer_file(*given, **named)  # type: ignore[misc]


class _Silence(BaseException):
    """Not an Exception: nobody must catch it and try again without a timeout."""


@contextmanager
def answer_within(seconds: float) -> Iterator[None]:
    """Raise a connection failure if the host takes longer than this; 0 is no timeout."""
    if not seconds:
        yield
        return

    def give_up(*_: object) -> None:
        raise _Silence

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _Silence:
        raise AnsibleConnectionFailure(f"it has not answered within {seconds:.0f} s") from None
    finally:
        # Ansible uses the same signal and expects the default handler.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def keep_alive(connection: Connection) -> None:
    """Make ssh notice that the other end is gone. Other connections do not have its options."""
    for option in OPTIONS:
        with suppress(KeyError):
            given = str(connection.get_option(option) or "")
            if KEEP_ALIVE not in given:
                connection.set_option(option, f"{given} {KEEP_ALIVE}".strip())


def lost(why: str) -> Result:
    # Ansible may end with a colon, and with nothing after it, because it has read nothing.
    first = " ".join(why.split())[:300].rstrip(" :")
    return {"failed": True, "lost_contact": True, "msg": f"lost contact with the host: {first}"}
