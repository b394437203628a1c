"""Run the selftests of cgroups, swap and nodes on every combination of the three.

A host for each number of nodes, both at once. Each boots kernel-thp with cgroup v2 and again with v1, and runs the
tests with swap on zram and again with swap on a disk. Results: build/matrix/results.json, and each program's output.
"""

from __future__ import annotations

import fnmatch
import json
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab import image, repo, splats
from lab.host import Host
from lab.splats import Allowed
from lab.vm import Vm
from scripts import files
from scripts.console import BUILD, UserError, main, say
from scripts.flavours import CLOUD
from tests.kernel.gate import SELFTESTS
from tests.verdicts import parse_ended
from tools.thp_validate.ktap import SKIP, Report
from tools.thp_validate.outcomes import Outcome, Required, evaluate, reasons

LIST = Path(__file__).resolve().parent / "matrix.txt"
OUT = BUILD / "matrix"
CGROUPS = ("v2", "v1")
SWAPS = {"zram": "", "disk": "/dev/nvme0n1"}
NODES = (1, 2)
LEGACY = "systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=1"
# Two hosts with two processors each share this machine.
SLOW = 3
PROGRAM_TIMEOUT = 900.0


@dataclass(frozen=True)
class Skip:
    test: str
    combination: str
    reason: str


@dataclass(frozen=True)
class Plan:
    programs: list[str]
    skips: list[Skip]

    def may_skip(self, test: str, combination: str) -> str:
        """Return why this test may be skipped in this combination, or nothing."""
        for skip in self.skips:
            if fnmatch.fnmatchcase(test, skip.test) and fnmatch.fnmatchcase(combination, skip.combination):
                return skip.reason
        return ""


@dataclass
class Combination:
    name: str
    seconds: float = 0.0
    ran: bool = False
    tests: list[Outcome] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        return "pass" if self.ran and not self.reasons else "fail"


def parse_plan(text: str, origin: str) -> Plan:
    plan = Plan([], [])
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        head, _, reason = line.partition(":")
        if words[0] == "run" and len(words) == 2 and words[1] not in plan.programs:
            plan.programs.append(words[1])
        elif words[0] == "skip" and len(head.split()) == 4 and words[2] == "in" and reason.strip():
            plan.skips.append(Skip(words[1], head.split()[3], reason.strip()))
        else:
            hint = "write `run PROGRAM`, each once, or `skip TEST in COMBINATION: REASON`"
            raise UserError(f"{origin}:{number}: `{line}` is not understood", hint)
    if not plan.programs:
        raise UserError(f"{origin} runs no program", "add `run PROGRAM` lines")
    return plan


def combinations(nodes: int) -> list[Combination]:
    return [Combination(f"{cgroup}-{swap}-{nodes}") for cgroup in CGROUPS for swap in SWAPS]


class Machine:
    """One host, for one number of nodes."""

    def __init__(self, vm: Vm, url: str, plan: Plan, exceptions: list[Allowed]) -> None:
        self.vm = vm
        self.host = Host(vm)
        self.url = url
        self.plan = plan
        self.exceptions = exceptions
        self.results = combinations(vm.nodes)
        self.uname = ""

    def run(self) -> None:
        try:
            self.prepare()
            for cgroup in CGROUPS:
                self.boot(cgroup)
                for result in self.results:
                    if result.name.startswith(cgroup):
                        self.combination(result)
        except UserError as error:
            for result in self.results:
                if not result.ran:
                    result.reasons.append(f"did not run: {error}")
        for splat in splats.scan(self.vm.console_text(), self.exceptions):
            self.results[0].reasons.append(f"kernel splat, in one of the {self.vm.nodes}-node runs: {splat.text}")

    def prepare(self) -> None:
        """Install, and make an entry for each cgroup version beside the kernel's own, which counts its tries."""
        say(f"{self.vm.name}: install kernel-thp")
        self.vm.wait_ssh()
        self.host.use_repository(self.url)
        self.host.install(CLOUD.package, "kernel-thp-selftests")
        self.uname = self.host.uname()
        entry = self.host.entry(self.uname)
        for cgroup, options in (("v2", ""), ("v1", LEGACY)):
            edit = f"s|^options.*|& {options}|"
            self.vm.run(f"cd {self.host.loader.entries} && sed '{edit}' {entry} > matrix-{cgroup}.conf")

    def boot(self, cgroup: str) -> None:
        entry = f"matrix-{cgroup}.conf"
        self.host.loader.set_once(entry)
        say(f"{self.vm.name}: {self.host.reboot_into(self.uname, entry)}")
        # The kernel may ignore an option, so check the state itself.
        self.expect("CONFIG_THP_SWAP=y", f"grep ^CONFIG_THP_SWAP= /lib/modules/{self.uname}/config")
        there = {"v2": "/sys/fs/cgroup/cgroup.controllers", "v1": "/sys/fs/cgroup/memory/memory.limit_in_bytes"}[cgroup]
        self.expect(there, f"ls {there}")
        self.expect(str(self.vm.nodes), "ls -d /sys/devices/system/node/node[0-9]* | wc -l")
        self.expect("0", f"cat /sys/block/{Path(SWAPS['disk']).name}/queue/rotational")

    def expect(self, want: str, script: str) -> None:
        found = self.vm.run(script, check=False).text
        if found != want:
            raise UserError(f"{self.vm.name}: `{script}` says `{found}`, not `{want}`", f"read {self.vm.console}")

    def combination(self, result: Combination) -> None:
        began = time.monotonic()
        device = SWAPS[result.name.split("-")[1]]
        reports = {program: self.program(program, device, result.name) for program in self.plan.programs}
        required = []
        for program in self.plan.programs:
            names = self.vm.run(f"cd {SELFTESTS}/thp && ./{program} --list").text.split()
            required += [Required(name, self.plan.may_skip(name, result.name)) for name in names]
        result.tests = evaluate(required, reports)
        result.reasons += reasons(result.tests, reports)
        # It stays until the next boot, so what ran after a complaint that tainted the kernel does not pass either.
        tainted = self.vm.run("cat /proc/sys/kernel/tainted").text
        if tainted != "0":
            result.reasons.append(f"the kernel is tainted ({tainted})")
        result.seconds = time.monotonic() - began
        result.ran = True
        say(f"{result.name}: {result.verdict}, {len(result.tests)} tests, {result.seconds:.0f} s")

    def program(self, name: str, device: str, combination: str) -> Report:
        swap = f"THP_TEST_SWAP={device} " if device else ""
        command = f"cd {SELFTESTS}/thp && {swap}THP_TEST_SLOW={SLOW} ./{name}"
        done = self.vm.run(command, timeout=PROGRAM_TIMEOUT, check=False)
        folder = OUT / combination
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.log").write_text("".join(f"{line.text}\n" for line in done.lines))
        return parse_ended([line.text for line in done.lines], [line.seconds for line in done.lines], done.code)


def table(results: list[Combination]) -> str:
    lines = [f"{'cgroup-swap-nodes':<18} {'result':<7} {'time':>6}  {'passed':>6} {'skipped':>7} {'refused':>7}"]
    for result in results:
        verdicts = [test.verdict for test in result.tests if test.accepted]
        refused = len(result.tests) - len(verdicts)
        skipped = verdicts.count(SKIP)
        counts = f"{len(verdicts) - skipped:6d} {skipped:7d} {refused:7d}"
        lines.append(f"{result.name:<18} {result.verdict:<7} {result.seconds:5.0f}s  {counts}")
    lines += [f"reason: {result.name}: {reason}" for result in results for reason in result.reasons]
    return "\n".join(lines)


def write(results: list[Combination], uname: str) -> None:
    found = [{"verdict": result.verdict, **asdict(result)} for result in results]
    files.replace(OUT / "results.json", json.dumps({"uname": uname, "combinations": found}, indent=2) + "\n")


def command() -> int:
    plan = parse_plan(LIST.read_text(), LIST.name)
    exceptions = splats.allowed()
    disk = image.build()
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "results.json").unlink(missing_ok=True)
    # Hosts are stopped before the pool waits for its threads, which ends whatever the threads wait for.
    with ThreadPoolExecutor(len(NODES)) as pool, ExitStack() as stack:
        url = stack.enter_context(repo.served())
        machines = []
        for nodes in NODES:
            name = f"matrix-{nodes}"
            vm = stack.enter_context(Vm(disk, OUT / name, name, nodes=nodes, swap_mib=512))
            machines.append(Machine(vm, url, plan, exceptions))
        running: list[Future[None]] = [pool.submit(machine.run) for machine in machines]
        for future in running:
            future.result()
    results = [result for machine in machines for result in machine.results]
    write(results, machines[0].uname)
    print(table(results))
    passed = sum(result.verdict == "pass" for result in results)
    verdict = "pass" if passed == len(results) else "fail"
    say(f"matrix: {verdict}: {passed} of {len(results)} combinations, results in build/matrix/")
    return 0 if verdict == "pass" else 1


if __name__ == "__main__":
    main(command)
