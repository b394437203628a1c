"""Measure the cost of a rollout itself, per host, with 20 and with 200 simulated hosts that take no time.

Ansible reaches the hosts by ssh on loopback. The controller is ansible-playbook with its workers and ssh clients. sshd
and the hosts' programs do not count as the controller's, but run on the same processors: times are upper bounds. The
settings are those of ansible/examples/ansible.cfg, and for comparison the same without one of them.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts import collection, files
from scripts.arguments import at_least_one
from scripts.console import BUILD, HEARTBEAT, ROOT, UserError, main, say, tail
from tests.fleet.scale.hosts import Hosts

WORK = BUILD / "fleet-scale"
RESULTS = WORK / "results.json"
TOOLS = Path(sys.executable).parent
COUNTS = (20, 200)
# The soak takes time and costs nothing, so it is cut to one health check.
VARIABLES = {"thp_gate_soak_seconds": 5, "thp_gate_soak_interval": 5, "thp_gate_selftests": False}
SAMPLE = 1.0
TASKS = re.compile(r"^TASK \[", re.MULTILINE)
TICK = os.sysconf("SC_CLK_TCK")
PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """One thing to measure: a playbook, or a module in place of it, with some settings taken from the environment."""

    name: str
    words: tuple[str, ...]
    settings: Mapping[str, str]


ROLLOUT = ("ansible-playbook", "kernel_thp.fleet.rollout")
# In this order, on the same hosts: the second finds nothing left to do.
CASES = (
    Case("rollout", ROLLOUT, {}),
    Case("the same again", ROLLOUT, {}),
    Case("validate", ("ansible-playbook", "kernel_thp.fleet.validate"), {}),
)
# Each on new hosts, with the smallest number of them.
COMPARED = (
    Case("rollout, forks = 5", ROLLOUT, {"ANSIBLE_FORKS": "5"}),
    Case("rollout, no pipelining", ROLLOUT, {"ANSIBLE_PIPELINING": "false"}),
    Case("facts once", ("ansible", "fleet", "-m", "ansible.builtin.setup", "-o"), {}),
)


@dataclass(frozen=True)
class Sample:
    """`cpu` is the controller's processor time in seconds, `memory_mib` its peak, with shared pages counted once.

    `report_kib` is the size of the run's three reports.
    """

    case: str
    hosts: int
    seconds: float
    cpu: float
    memory_mib: float
    tasks: int
    report_kib: float

    @property
    def per_host(self) -> float:
        return self.seconds / self.hosts


def subject() -> str:
    total = hashlib.sha256()
    for path in sorted(path for path in collection.SOURCE.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        total.update(f"{path.relative_to(collection.SOURCE)}\n".encode() + path.read_bytes())
    return total.hexdigest()


# Watching processes


def _stat(process: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name, or none for a process that has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return []


def _all() -> Iterator[int]:
    yield from (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())


def family(process: int) -> list[int]:
    """Return a process and its descendants: ansible-playbook, its workers, their ssh clients."""
    children: dict[int, list[int]] = {}
    for other in _all():
        for parent in _stat(other)[1:2]:
            children.setdefault(int(parent), []).append(other)
    found = [process]
    for member in found:
        found += children.get(member, [])
    return found


def masters(sockets: Path) -> list[int]:
    """Return the ssh processes that keep connections open. They are no descendants of Ansible any more."""
    found = []
    for process in _all():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process}/cmdline").read_bytes().startswith(f"ssh: {sockets}/".encode()):
                found.append(process)
    return found


def pss(process: int) -> int:
    """Return the memory of a process in KiB, each page divided by the number of processes that share it."""
    with contextlib.suppress(OSError):
        match = PSS.search(Path(f"/proc/{process}/smaps_rollup").read_text())
        return int(match[1]) if match else 0
    return 0


def ticks(process: int) -> int:
    fields = _stat(process)
    return int(fields[11]) + int(fields[12]) if fields else 0


# Measuring


def environment(sockets: Path, settings: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    return {
        **kept,
        "PWD": str(WORK),
        "ANSIBLE_CONFIG": str(collection.SOURCE / "examples" / "ansible.cfg"),
        "ANSIBLE_HOME": str(WORK / "ansible"),
        "ANSIBLE_COLLECTIONS_PATH": str(collection.link()),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets),
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_NOCOLOR": "1",
        **settings,
    }


def measure(case: Case, hosts: Hosts) -> Sample:
    """Run a case to its end, and measure its processes meanwhile."""
    inventory = WORK / "inventory.json"
    inventory.write_text(json.dumps(hosts.inventory()))
    words = ["-i", str(inventory)]
    if case.words[0] == "ansible-playbook":
        words += ["-e", json.dumps({**VARIABLES, "thp_fleet_serial": ["100%"]})]
    log = WORK / f"{len(hosts.names)}-{re.sub(r'[^a-z0-9]+', '-', case.name)}.log"
    with TemporaryDirectory(prefix="kt") as folder, log.open("wb") as handle:
        sockets = Path(folder)
        began = time.monotonic()
        process = subprocess.Popen(
            [str(TOOLS / case.words[0]), *case.words[1:], *words],
            cwd=WORK,
            env=environment(sockets, case.settings),
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        seconds = cpu = memory = 0.0
        try:
            process.returncode, cpu, memory = _watch(process.pid, sockets, case.name)
            seconds = time.monotonic() - began
        finally:
            if process.returncode is None:
                _kill(family(process.pid))
            for master in masters(sockets):
                cpu += ticks(master) / TICK
            _kill(masters(sockets))
    if process.returncode != 0:
        what = f"{case.name} on {len(hosts.names)} hosts ended with {process.returncode}: {tail(log, 1)}"
        raise UserError(what, f"read {log}")
    tasks = len(TASKS.findall(log.read_text(errors="replace")))
    return Sample(case.name, len(hosts.names), seconds, cpu, memory, tasks, _report_kib())


def _report_kib() -> float:
    """Return the size of the last run's reports; a case that is no run has those of the run before."""
    latest = WORK / "kernel-thp-reports" / "latest"
    return sum((latest / name).stat().st_size for name in ("report.json", "report.html", "junit.xml")) / 1024


def _kill(processes: Sequence[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _watch(process: int, sockets: Path, what: str) -> tuple[int, float, float]:
    """Wait for a process; return its exit code, processor time and peak memory in MiB."""
    highest, beat = 0, time.monotonic() + HEARTBEAT
    while True:
        done, status, usage = os.wait4(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, highest / 1024
        highest = max(highest, sum(pss(member) for member in (*family(process), *masters(sockets))))
        if time.monotonic() > beat:
            say(f"  {what}: {highest >> 10} MiB at most")
            beat = time.monotonic() + HEARTBEAT
        time.sleep(SAMPLE)


def run(cases: Sequence[Case], count: int, known: list[Sample]) -> None:
    """Measure these cases in order on new hosts, unless all of them are known already."""
    if {(case.name, count) for case in cases} <= {(sample.case, sample.hosts) for sample in known}:
        say(f"{', '.join(case.name for case in cases)} on {count} hosts: measured before")
        return
    with Hosts(WORK / "hosts", count) as hosts:
        for case in cases:
            say(f"{case.name} on {count} hosts ...")
            sample = measure(case, hosts)
            if case.words == ROLLOUT and hosts.rolled_out() != hosts.names:
                raise UserError(f"{case.name}: not all hosts run the new kernel", f"read the log in {WORK}")
            known[:] = [other for other in known if (other.case, other.hosts) != (sample.case, sample.hosts)]
            known.append(sample)
            write(known)
            say(f"{case.name} on {count} hosts: {sample.seconds:.0f} s")


def write(samples: Sequence[Sample]) -> None:
    found = {"subject": subject(), "processors": os.cpu_count(), "samples": [asdict(sample) for sample in samples]}
    files.replace(RESULTS, json.dumps(found, indent=2) + "\n")


def read() -> list[Sample]:
    """Return the samples of the present collection."""
    if not RESULTS.exists():
        return []
    found = json.loads(RESULTS.read_text())
    return [Sample(**sample) for sample in found["samples"]] if found["subject"] == subject() else []


def table(samples: Sequence[Sample]) -> str:
    form = "{:<24} {:>6} {:>9} {:>10} {:>12} {:>10} {:>9} {:>6}"
    lines = [form.format("", "hosts", "time", "per host", "CPU per host", "memory", "reports", "tasks")]
    for sample in samples:
        cpu, memory = f"{sample.cpu / sample.hosts:.2f} s", f"{sample.memory_mib:.0f} MiB"
        took = (f"{sample.seconds:.0f} s", f"{sample.per_host:.2f} s", cpu, memory)
        lines.append(form.format(sample.case, sample.hosts, *took, f"{sample.report_kib:.0f} KiB", sample.tasks))
    return "\n".join(lines)


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=at_least_one, nargs="+", default=list(COUNTS), help="default: 20 200")
    parser.add_argument("--no-compare", dest="compare", action="store_false", help="without other settings")
    parser.add_argument("--force", action="store_true", help="measure again, whatever results are kept")
    given = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    samples = [] if given.force else read()
    for count in given.hosts:
        run(CASES, count, samples)
    for case in COMPARED if given.compare else ():
        run((case,), min(given.hosts), samples)
    print(table(samples))
    say(f"fleet-scale: done, results in {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main(command)
