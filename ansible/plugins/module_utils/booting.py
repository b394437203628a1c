"""Boot another kernel and roll back, on one host. Each step checks what is already done and does the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.kernel_thp.fleet.plugins.module_utils import (
    bls,
    drivers,
    loaders,
    services,
    snapshot,
    splat_list,
    trial,
    validator,
)
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.bls import Entry
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import Store

ROOT = Path("/")
POLL = 1.0
# Complaints on which a kernel on trial panics, the second ones until the host has answered.
LOCKUPS, BLOCKED = ("soft-lockup", "hard-lockup", "rcu-stall"), ("hung-task",)


@dataclass(frozen=True)
class Trial:
    """How a kernel is tried: see the module boot."""

    uname: str
    panic: int
    watchdog: int
    arguments: list[str]
    timeout: int
    check_drivers: bool
    panic_on_lockup: bool = True


class Host:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.loader = loaders.find()
        self.changed = False

    def boot_settings(self) -> dict[str, Any]:
        """Return the boot loader's configuration."""
        return {**self.loader.settings(), "once": self.loader.once()}

    def hold(self, timeout: int) -> None:
        """Before the install: make sure that every boot starts the old kernel, whatever happens."""
        record = self.store.need(records.BEGUN, records.INSTALLING, records.INSTALLED, records.ARMED, records.BOOTED)
        self._make_default(self.loader.entry(record["before"]["uname"]))
        # But not those of the new kernel: a run that was cut off may have armed it for the next boot.
        self._forget_trials(but=record["target"]["uname"])
        if record["target"]["uname"] != record["before"]["uname"]:
            self.changed |= trial.prepare(ROOT, record["target"]["uname"], timeout)

    def try_once(self, wanted: Trial) -> bool:
        """Try a kernel in the next boot; say whether a reboot is needed."""
        record = self.store.need(records.INSTALLED, records.ARMED, records.BOOTED)
        if record["phase"] == records.INSTALLED:
            # The host is out of service: what it lacks now is not for the new kernel to bring back.
            record = self.store.write(record, while_drained=services.read())
        entry = self.loader.entry(wanted.uname)
        lacking = self.loader.incomplete(entry)
        if lacking:
            what = f"the boot entry of {wanted.uname} lacks {', '.join(lacking)}"
            raise Problem(what, "check whether the boot partition is full, and what kernel-install says")
        tried = record["phase"] == records.ARMED and record["armed_in"] != snapshot.boot_id()
        if snapshot.uname() == wanted.uname:
            return False
        if snapshot.secure_boot(ROOT) and (refused := validator.not_booted(wanted.uname)):
            raise Problem(refused)
        lost = drivers.lacking(wanted.uname, snapshot.uname(), ROOT) if wanted.check_drivers else []
        if lost:
            what = f"{wanted.uname} has no driver for {', and none for '.join(lost)}"
            raise Problem(
                what, "use the server flavour, or set thp_kernel_check_drivers to false if this host can do without"
            )
        # A trial that ran and was not confirmed has not failed: its controller was killed.
        if tried and not trial.unconfirmed(ROOT):
            raise Problem(_came_back(wanted.uname), "read the console, /sys/fs/pstore and the journal of that boot")
        if not self.loader.kept(self.loader.entry(record["before"]["uname"])):
            raise Problem("the old kernel is not the default, so it would not start again by itself", "begin again")
        boot, watchdog = snapshot.boot_id(), wanted.watchdog if not snapshot.watchdog() else 0
        lockups = wanted.panic_on_lockup and not _complained(record, LOCKUPS)
        blocked = wanted.panic_on_lockup and not _complained(record, BLOCKED)
        words = trial.arguments(boot, wanted.panic, watchdog, wanted.arguments, lockups, blocked)
        trial.arm(ROOT, wanted.uname, boot, wanted.timeout, trial.sysctls(wanted.panic, lockups, blocked))
        self.loader.set_trial(entry, words)
        self.loader.set_once(entry)
        self.store.write(record, phase=records.ARMED, armed_in=boot, arguments=words)
        self.changed = True
        return True

    def confirm(self, uname: str, panic: int, lockups: bool = True) -> None:
        """After the reboot: check that the wanted kernel runs, freshly booted from the entry that was armed."""
        record = self.store.need(records.INSTALLED, records.ARMED, records.BOOTED)
        if snapshot.uname() != uname:
            raise Problem(_came_back(uname), "read the console, /sys/fs/pstore and the journal of that boot")
        armed = record["phase"] == records.ARMED
        if armed and record["armed_in"] == snapshot.boot_id():
            raise Problem("the host has not rebooted: its boot id is the same", "see why `shutdown -r` does nothing")
        selected = self.loader.selected()
        if armed and selected is not None and not _named(self.loader.entry(uname), selected):
            raise Problem(f"the boot loader started {selected}, not the entry of {uname}", "check `bootctl list`")
        if uname != record["before"]["uname"]:
            # For the rest of the trial, whatever has set them since the boot. They are restored at the end.
            wanted = trial.sysctls(panic, lockups and not _complained(record, LOCKUPS))
            self._set_sysctls({**wanted, **_when_it_answered(record)}, on_trial=True)
        self.changed |= trial.disarm(ROOT) or record["phase"] != records.BOOTED
        if record["phase"] != records.BOOTED:
            self.store.write(record, phase=records.BOOTED)

    def keep(self, uname: str, timeout: float) -> None:
        """After the gate: make this kernel the default, and remove what was only for the trial."""
        record = self.store.need(records.BOOTED)
        if snapshot.uname() != uname:
            # It died after it was evaluated, and the host rebooted into the old kernel.
            raise Problem(_came_back(uname), "read the console, /sys/fs/pstore and the journal of that boot")
        entry = self._found_good(uname, timeout)
        self._make_default(entry)
        self._forget_trials()
        # This boot is that of the trial, and the old kernel may not have had all of them.
        self._set_sysctls({**trial.NO_LOCKUPS, **record["before"]["sysctls"]})

    def roll_back(self) -> bool:
        """Make the old kernel the one to boot; say whether a reboot is needed."""
        record = self.store.need(records.ROLLING_BACK)
        # The new kernel may run, and have to go on if the host cannot be rebooted.
        self.changed |= snapshot.set_sysctls(_when_it_answered(record), ROOT)
        self.changed |= trial.disarm(ROOT)
        self._forget_once()
        self._make_default(self.loader.entry(record["before"]["uname"]))
        return snapshot.uname() != str(record["before"]["uname"])

    def expect_old_kernel(self, left: str) -> None:
        """After the reboot: check that this is another boot and the old kernel, so that the rollback can continue."""
        record = self.store.need(records.ROLLING_BACK)
        if snapshot.boot_id() == left:
            raise Problem("the host has not rebooted: its boot id is the same", "see why `shutdown -r` does nothing")
        if snapshot.uname() != record["before"]["uname"]:
            what = f"the host came back with {snapshot.uname()}, not with {record['before']['uname']}"
            raise Problem(what, "check the boot loader's configuration, and start the old kernel by hand")

    def restore(self) -> None:
        """At the end of a rollback: restore the loader's settings, and the entries of the kernels that stay."""
        record = self.store.need(records.ROLLING_BACK)
        self._forget_once()
        self._forget_trials()
        wanted = record["before"]["boot"]["settings"]
        if self.loader.settings() != wanted:
            self.loader.restore(wanted)
            self.changed = True
        self._set_sysctls(record["before"]["sysctls"])

    def _set_sysctls(self, wanted: dict[str, str], on_trial: bool = False) -> None:
        self.changed |= trial.keep_sysctls(ROOT, wanted if on_trial else None)
        self.changed |= snapshot.set_sysctls(wanted, ROOT)

    def _make_default(self, entry: Entry) -> None:
        if self.loader.kept(entry):
            return
        self.loader.keep(entry)
        if not self.loader.kept(entry):
            raise Problem(f"the boot loader does not accept {entry.name} as its default", "check its configuration")
        self.changed = True

    def _forget_trials(self, but: str | None = None) -> None:
        """Clear every entry: kernel-install copies the trial's words to entries it writes during the trial."""
        for entry in bls.entries(self.loader.folder):
            if trial.marked(entry.options) and entry.version != but:
                self.changed |= self.loader.set_trial(entry, [])

    def _forget_once(self) -> None:
        if self.loader.once():
            self.loader.set_once(None)
            self.changed = True

    def _found_good(self, uname: str, timeout: float, sleep: Callable[[float], None] = time.sleep) -> Entry:
        """Wait until boot counting, if it is on, has marked the boot as good."""
        deadline = time.monotonic() + timeout
        while (entry := self.loader.entry(uname)).counted:
            if time.monotonic() > deadline:
                what = f"systemd has not marked the boot as good within {timeout:.0f} s"
                raise Problem(what, "see `systemctl list-jobs` and what boot-complete.target requires")
            sleep(POLL)
        return entry


def _named(entry: Entry, selected: str) -> bool:
    """Say whether a name is that of an entry, whatever tries it had when it was started."""
    file = selected if selected.endswith(bls.SUFFIX) else selected + bls.SUFFIX
    return bls.parse(file, "").name.lower() == entry.name.lower()


def _when_it_answered(record: records.Record) -> dict[str, str]:
    """Return what ends with the answer of a new kernel, with the value that the host had before."""
    armed = trial.BLOCKED_WORD in record.get("arguments", [])
    return {trial.BLOCKED: record["before"]["sysctls"].get(trial.BLOCKED, "0")} if armed else {}


def _complained(record: records.Record, of: Sequence[str]) -> bool:
    """Say whether the old kernel complained of these: such a host, on a busy hypervisor, is slow and does not hang."""
    kinds = map(splat_list.kind, record["before"].get("complaints", []))
    return any(kind is not None and kind.name in of for kind in kinds)


def _came_back(uname: str) -> str:
    return f"the host came back with {snapshot.uname()}: {uname} was not started, or died"


def plan(state: str, uname: str, record: records.MaybeRecord) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the boot loader's configuration, and the one it would get."""
    loader = loaders.find()
    settings, once = loader.settings(), loader.once()
    if state == "restored":
        then = record["before"]["boot"]["settings"] if record else settings
        return {**settings, "once": once}, {**then, "once": None}
    # With every loader, the first setting is the default.
    now = {"default": next(iter(settings.values())), "once": once}
    old = record["before"]["uname"] if record and records.unfinished(record) else snapshot.uname()
    default = uname if state == "kept" else old
    tried = uname if state == "once" and uname != snapshot.uname() else None
    return now, {"default": f"the entry of {default}", "once": tried}
