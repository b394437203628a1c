"""Whether a host is ready for a rollout or already has it, from what the module host_info returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import process

MIB = 1 << 20
MACHINE = "x86_64"
Seen = Mapping[str, Any]


def unfit(seen: Seen) -> list[str]:
    """Return why nothing else can be checked on a host."""
    host = seen["host"]
    checks = {
        "this needs root; use become": host["root"],
        f"this is {host['machine']}, and kernel-thp is for {MACHINE}; leave the host out": host["machine"] == MACHINE,
        "rpm is missing: this is no RPM host": host["rpm"],
        "dnf is missing; install it": host["dnf"],
    }
    return [sentence for sentence, is_there in checks.items() if not is_there]


def cloned(seen: Seen) -> list[str]:
    """Return why a record is not this host's: nothing may be done to a host by the record of another one."""
    record, own = seen.get("record"), seen.get("host", {}).get("identity", "")
    if record is None or not records.foreign(record, own):
        return []
    what = f"this host is a clone: {records.FOLDER / records.NAME} is of machine {record['machine']}, this is {own}"
    how = "move it away, and holder.json beside it; the host keeps the kernel, packages and default that it has"
    if records.unfinished(record):
        how = f"the rollout of {record['target']['uname']} was unfinished: see which kernel is the default, then {how}"
    if own.split()[:1] == record["machine"].split()[:1]:
        how += "; or, if this is the same host on new hardware, put the new id into that file"
    return [f"{what}; {how}"]


def hindered(
    seen: Seen,
    target: Mapping[str, Any],
    boot_mib: int,
    root_mib: int,
    need_watchdog: bool,
    allow_fips: bool = False,
    var_mib: int = 0,
    check_drivers: bool = True,
) -> list[str]:
    """Return what has to be fixed before anything is changed, each with a hint."""
    host = seen["host"]
    found = list(host["boot"]["problems"])
    if not _installed(seen, target):
        # An earlier rollout that this one continues has already used the space.
        found += _space(host, boot_mib, root_mib, var_mib)
    if host.get("multipath"):
        found.append(f'{host["multipath"]}; have dracut add it (add_dracutmodules+=" multipath "), and run dracut -f')
    # dkms and the like build modules when a kernel is installed.
    not_built = host.get("not_built", {}).get(target["uname"])
    if not_built and check_drivers:
        found.append(
            f"{target['uname']} is installed already, without the third-party modules that are loaded "
            f"({', '.join(not_built)}); build them for it, or set thp_kernel_check_drivers to false if this host can "
            "do without"
        )
    if host["tuned_gone"]:
        found.append("tuned-adm is missing, although the package tuned is installed; reinstall tuned")
    if host["fips"] and not allow_fips:
        found.append(
            "FIPS mode is on, and nobody has certified kernel-thp; set thp_preflight_allow_fips to true to go on"
        )
    if need_watchdog and host["no_watchdog"]:
        found.append(f"{host['no_watchdog']}; set thp_preflight_require_watchdog to false to do without")
    return found


def reasons(
    seen: Seen,
    found: Mapping[str, Any],
    undoable: Mapping[str, Any],
    left_out: str,
    limits: Sequence[Any],
    given: Sequence[str] = (),
) -> list[str]:
    """Return all that keeps a host from taking part in a rollout, for the survey.

    `found` and `undoable` are the results of two modules, `left_out` the problem of a host that is out of service, and
    `limits` are those of `hindered`. `given` is what is wrong with variables of the operator, or empty texts.
    """
    unsuited = unfit(seen)
    if unsuited:
        return unsuited
    others = [found.get("msg"), undoable.get("msg"), left_out if records.drained(seen["record"]) else "", *given]
    hindrances = hindered(seen, found.get("target") or {"uname": ""}, *limits)
    return [*cloned(seen), *_held(seen), *_cut_off(seen, found.get("target")), *filter(None, others), *hindrances]


def _cut_off(seen: Seen, target: dict[str, Any] | None) -> list[str]:
    """Return why a rollout would first roll back what an earlier run left in the middle."""
    record = seen["record"]
    if record is None or not halfway(seen):
        return []
    if record["phase"] == records.ROLLING_BACK:
        return ["a rollback was cut off on this host, and has to be finished first: run kernel_thp.fleet.rollback"]
    try:
        if target:
            records.begin(record, "", target, {})
    except Problem as problem:
        return [str(problem)]
    return []


def _held(seen: Seen) -> list[str]:
    """Return who works on a host, unless a rollout would take it over."""
    holder = seen["holder"]
    if not holder or process.gone(holder["run"], holder["controller"]):
        return []
    what = f"run {holder['run']} of {holder['controller']} works on this host since {holder['since']}"
    return [f"{what}; wait for it, or give its name in thp_preflight_instead_of if it is gone"]


def surveyed(seen: Seen, why_not: Sequence[str]) -> dict[str, Any]:
    """Return what the report says about a host that was surveyed."""
    host = seen["host"]
    about = {"uname": host.get("uname"), "counters": host.get("counters")}
    loader = (host.get("boot") or {}).get("loader")
    return {
        "before": about,
        "loader": loader,
        "reasons": list(why_not),
        "remarks": remarks(seen) if not unfit(seen) else [],
    }


def _installed(seen: Seen, target: Mapping[str, Any]) -> bool:
    record = seen["record"]
    if not record or record["target"]["uname"] != target["uname"]:
        return False
    return record["phase"] in (records.INSTALLED, records.ARMED, records.BOOTED, records.DONE)


def _space(host: Mapping[str, Any], boot_mib: int, root_mib: int, var_mib: int) -> list[str]:
    places = [("/", host["root_free_bytes"], root_mib)]
    places += [(path, free, var_mib) for path, free in host.get("var_free_bytes", {}).items()]
    if host["boot"]["loader"]:
        places.append((host["boot"]["path"], host["boot"]["free_bytes"], boot_mib))
    return [
        f"{place} has {free // MIB} MiB free, {wanted} MiB are needed; make room"
        for place, free, wanted in places
        if free < wanted * MIB
    ]


def remarks(seen: Seen) -> list[str]:
    """Return what an operator should know although the rollout can continue."""
    host = seen["host"]
    found = []
    if host["no_watchdog"]:
        what = "a systemd that hangs, or a lockup that the kernel does not notice, would need a reset by hand"
        found.append(f"{host['no_watchdog']}: {what}")
    for name in (name for name, value in host["configured_sysctls"].items() if value == "0"):
        message = f"sysctl.d sets {name.replace('/', '.')} = 0"
        found.append(f"{message}: the new kernel still reboots by itself during its trial, but not later")
    if host.get("kdump"):
        found.append(host["kdump"])
    if host.get("third_party"):
        what = f"third-party modules are loaded ({', '.join(host['third_party'])})"
        found.append(
            f"{what}: unless something such as dkms builds them for the new kernel, the host is rolled back before the "
            "reboot (thp_kernel_check_drivers)"
        )
    if host.get("secure_boot"):
        found.append(
            "Secure Boot is enforced: whether the host trusts the certificate of kernel-thp-release is checked later, "
            "when the kernel is installed and before the reboot"
        )
    if host["counters"]["pressure_us"] is None:
        what = "the old kernel has no /proc/pressure/memory (psi=0?)"
        found.append(
            f"{what}: there is no memory pressure to compare with, and it is not checked if the new one has none either"
        )
    return found


def finished(seen: Seen, target: Mapping[str, Any]) -> bool:
    """Say whether exactly this was rolled out here. This does not check the host's health, or which kernel runs."""
    record = seen["record"]
    return bool(record and record["phase"] == records.DONE and records.same(record["target"], target))


def halfway(seen: Seen) -> bool:
    """Say whether an earlier run has left the host in the middle of a rollout, or out of service."""
    if cloned(seen):
        return False
    return records.unfinished(seen.get("record")) or records.drained(seen.get("record"))


def left_behind(seen: Seen) -> bool:
    """Say whether an earlier run has left the host in the middle, or has not released it.

    A run that was killed just before the release still holds a host that is otherwise done.
    """
    return halfway(seen) or bool(seen.get("holder"))


def undoable(seen: Seen, back_to: str) -> bool:
    """Say whether a rollback would have anything to do, if only to release the host for a dead run."""
    return records.to_undo(seen["record"], back_to) is not None or left_behind(seen)
