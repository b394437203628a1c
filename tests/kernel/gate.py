"""The gate: a fresh host installs kernel-thp by dnf, boots it by its own boot loader and runs the selftests.

The host has two NUMA nodes, because some selftests migrate huge pages. Nothing is faked between `dnf install`
and the verdict. Results: build/gate/results.json, junit.xml, ktap/, vm/console.log.

With --flavour server or debug it tests that one; results: the same in build/gate-FLAVOUR/. The debug kernel gets a
churn of everything at once with failing allocations after the selftests, and is asked for leaks. It is so slow that two
hosts share its tests. Both start from one that has booted, and so does a gate that follows an interrupted one, which
does not repeat the tests that were through. With LAB_HOST=grub the host boots by GRUB and is as new as the next release
of an RPM distribution; results: in build/gate-grub/.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Lock

from lab import image, repo, snapshots, splat_list, splats
from lab.accel import accelerator
from lab.host import Host
from lab.loaders import Grub
from lab.vm import BOOT_TIMEOUT, COMMAND_TIMEOUT, SSH_FAILED, Line, Saved, Vm
from scripts import files, flavours, kconfig
from scripts.config import complete
from scripts.console import BUILD, ROOT, UserError, main, say
from scripts.flavours import CLOUD, Flavour
from tests.kernel import leaks, lockdep_state, lost_pages
from tests.kernel.results import Results, Step
from tools.thp_validate import errors
from tools.thp_validate.ktap import Report, parse
from tools.thp_validate.outcomes import Required, evaluate, parse_required, reasons

REQUIRED = ROOT / "tests" / "selftests" / "required.txt"
REQUIRED_DEBUG = ROOT / "tests" / "selftests" / "required-debug.txt"
SELFTESTS = "/usr/libexec/kselftests"
# thp_defrag takes a fast machine 200 s, and its host may not have both processors for itself.
PROGRAM_TIMEOUT = 780.0
CHURN_SECONDS = 600
# What the selftests do only where they are allowed to. The host here is ours.
FILL, READ_ERRORS = "THP_TEST_FILL_MEMORY=1", "THP_TEST_READ_ERRORS=1"
# A reason to skip a test, but not on a kernel that has the option.
NEEDS = re.compile(r"needs (CONFIG_\w+)")
CHURN = "thp:thp_churn"
KMEMLEAK = "/sys/kernel/debug/kmemleak"
SYSTEMD_LIMITS = Path("/etc/systemd/system.conf.d/gate.conf")
# Shorter than this, an object is not looked at: whoever allocated it may be about to link it somewhere.
LEAK_AGE = 6


@dataclass
class Work:
    """The selftests that the hosts of a run share: each takes the next one that is left.

    What they print is kept in a directory, if there is one, and a run that finds it there does not repeat them.
    """

    kept: Path | None = None
    entries: list[str] = field(default_factory=list)
    reports: dict[str, Report] = field(default_factory=dict)
    known: bool = False
    lock: Lock = field(default_factory=Lock)

    def offer(self, entries: Sequence[str]) -> None:
        """Name all of them, in their order; each host does, and the first counts."""
        with self.lock:
            if not self.known:
                places = {entry: self.kept / f"{slug(entry)}.json" for entry in entries} if self.kept else {}
                self.reports = {entry: read(path) for entry, path in places.items() if path.exists()}
                self.entries = [entry for entry in entries if entry not in self.reports]
                self.known = True

    def take(self) -> str:
        """Return the next one, or nothing."""
        with self.lock:
            return self.entries.pop(0) if self.entries else ""

    def done(self, entry: str, lines: Sequence[Line]) -> Report:
        """Add what one has printed."""
        if self.kept:
            self.kept.mkdir(exist_ok=True)
            files.replace(self.kept / f"{slug(entry)}.json", json.dumps([asdict(line) for line in lines]))
        self.reports[entry] = report(lines)
        return self.reports[entry]


def slug(entry: str) -> str:
    """Return the name of an entry's files."""
    return entry.replace(":", "-")


def report(lines: Sequence[Line]) -> Report:
    return parse([line.text for line in lines], [line.seconds for line in lines])


def read(path: Path) -> Report:
    return report([Line(**line) for line in json.loads(path.read_text())])


class Gate:
    """What one host does; every step adds to the results, and the first one that fails ends it."""

    def __init__(self, flavour: Flavour, vm: Vm, url: str, work: Work, results: Results, number: int = 1) -> None:
        self.flavour = flavour
        self.slow = slow(flavour)
        self.vm = vm
        self.vm.silence *= self.slow
        self.host = Host(vm)
        # The machine's directory is in that of the results.
        self.out = vm.directory.parent
        self.url = url
        self.work = work
        self.results = results
        self.number = number
        self.suffix = suffix(number)
        self.detail = ""
        # Whether its console begins with a kernel that had started before.
        self.resumed = False

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        name = f"{name}, host {self.number}" if self.number > 1 else name
        say(name)
        self.detail = ""
        began = time.monotonic()
        try:
            yield
        except UserError as error:
            self.results.steps.append(Step(name, time.monotonic() - began, str(error), False))
            raise
        self.results.steps.append(Step(name, time.monotonic() - began, self.detail, True))

    def boot(self) -> None:
        self.start_stock()
        self.install_selftests()
        self.install_kernel()
        self.boot_once()
        self.check_host()

    def run(self) -> None:
        self.boot()
        self.test()

    def go_on(self) -> None:
        """On a machine that starts from one which has booted."""
        self.resumed = True
        with self.step("start from the booted host"):
            self.vm.wait_ssh(BOOT_TIMEOUT * self.slow)
        self.test()

    def test(self) -> None:
        self.run_selftests()
        self.find_lost_pages()
        if self.flavour.debug:
            self.find_leaks()
        self.scan()
        self.return_to_stock()

    def start_stock(self) -> None:
        with self.step("boot the stock kernel"):
            self.vm.wait_ssh()
            self.detail = self.results.stock = self.vm.run("uname -r").text
            self.keep_stock_as_default()

    def keep_stock_as_default(self) -> None:
        self.host.loader.set_default(self.host.entry(self.results.stock))

    def install_selftests(self) -> None:
        with self.step("dnf install kernel-thp-selftests, OOM experiment"):
            self.host.use_repository(self.url)
            self.host.install("kernel-thp-selftests")
            self.results.before = self.oom_experiment()
            self.detail = f"{len(self.results.before)} settings"

    def oom_experiment(self) -> list[str]:
        script = f"cd {SELFTESTS}/thp && ./thp_oom --report"
        report = self.vm.run(script, timeout=COMMAND_TIMEOUT * self.slow, check=False)
        lines = [line.text for line in report.lines if line.text.startswith("threshold=")]
        if not lines:
            printed = " / ".join(line.text for line in report.lines[-3:])
            raise UserError(f"thp_oom --report printed no threshold line: {printed}", "run it by hand in `make vm`")
        return lines

    def install_kernel(self) -> None:
        with self.step(f"dnf install {self.flavour.package}"):
            self.host.install(self.flavour.package, "kernel-thp-selftests")
            core = self.flavour.core
            self.results.nevra = self.vm.run(f"rpm -q {core}").text
            self.results.uname = self.host.uname(self.flavour)
            if len(self.results.nevra.splitlines()) != 1:
                raise UserError(f"{core} is not there exactly once: {self.results.nevra}", "look at its repository")
            self.detail = self.results.nevra
            self.host.entry(self.results.uname)
            if isinstance(self.host.loader, Grub):
                # There, a kernel that is added becomes the default: step 4 in docs/operating.md.
                self.keep_stock_as_default()

    def boot_once(self) -> None:
        with self.step(f"boot {self.flavour.package} once"):
            if self.flavour.debug:
                self.make_systemd_patient()
            self.detail = self.host.boot_once(self.results.uname, BOOT_TIMEOUT * self.slow)

    def make_systemd_patient(self) -> None:
        """Two debug kernels that boot side by side find the devices of fstab after more than systemd's 90 s."""
        limit = BOOT_TIMEOUT * self.slow
        limits = f"[Manager]\nDefaultDeviceTimeoutSec={limit:.0f}\nDefaultTimeoutStartSec={limit:.0f}\n"
        self.vm.run(f"mkdir -p {SYSTEMD_LIMITS.parent} && cat > {SYSTEMD_LIMITS}", stdin=limits)

    def return_to_stock(self) -> None:
        with self.step("reboot into the default, the stock kernel"):
            entry = self.host.entry(self.results.stock)
            self.detail = self.host.reboot_into(self.results.stock, entry, BOOT_TIMEOUT * self.slow)

    def check_host(self) -> None:
        with self.step("check the host"):
            self.vm.run(f"rpm -V {self.flavour.core}")
            installed = self.vm.run(f"dnf -q repoquery --userinstalled {self.flavour.package}").text
            if not re.search(rf"^{self.flavour.package}-\d", installed, re.MULTILINE):
                raise UserError(f"dnf does not know who installed {self.flavour.package}", f"it says: {installed}")
            self.host.wait_blessed(self.results.uname, 60 * self.slow)
            self.detail = "rpm -V clean, installed by the user, boot entry blessed"

    def run_selftests(self) -> None:
        listed = self.vm.run(f"cat {SELFTESTS}/kselftest-list.txt").text.split()
        if self.flavour.debug:
            listed.append(CHURN)
        self.work.offer(listed)
        while entry := self.work.take():
            seconds = f", {churn_seconds()} s" if entry == CHURN else ""
            with self.step(f"{entry}{seconds}"):
                (self.churn if entry == CHURN else self.run_program)(entry)
            self.keep()
        if self.number == 1:
            with self.step("OOM experiment"):
                self.results.after = self.oom_experiment()

    def keep(self) -> None:
        """Write down what is known, for a run that goes on after this one was interrupted."""
        if not self.work.kept:
            return
        # The next run has other hosts, with other consoles.
        self.complain_of_console()
        with self.work.lock:
            self.results.write(self.work.kept.parent)

    def run_program(self, entry: str) -> None:
        # Through cat, as the runner opens /dev/stdout again, which a socket does not allow.
        words = f"{' '.join(allowed(self.flavour))} THP_TEST_SLOW={self.slow}"
        runner = f"{words} {SELFTESTS}/run_kselftest.sh -t {entry} 2>&1 | cat"
        self.run_logged(entry, runner, PROGRAM_TIMEOUT * self.slow)

    def churn(self, entry: str) -> None:
        """Outside of the runner, which has no arguments; what it reports counts like all the rest."""
        seconds = churn_seconds()
        self.run_logged(entry, f"cd {SELFTESTS}/thp && ./thp_churn {seconds}", 3.0 * seconds + 900)

    def run_logged(self, entry: str, script: str, timeout: float) -> None:
        log = self.out / "ktap" / f"{slug(entry)}.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("w") as handle:
            done = self.vm.run(
                script,
                timeout=timeout,
                check=False,
                on_line=lambda line: print(line, file=handle, flush=True),
            )
        if done.code == SSH_FAILED:
            # Else it would take all programs that are left, and run none.
            raise UserError(f"{self.vm.name} has left during {entry}", f"read {self.vm.console}")
        verdicts = [leaf.verdict for leaf in self.work.done(entry, done.lines).leaves()]
        self.detail = ", ".join(f"{verdicts.count(word)} {word}" for word in sorted(set(verdicts)))

    def find_lost_pages(self) -> None:
        """On each flavour: kmemleak, which only the debug kernel has, does not look at the pages of processes."""
        with self.step("look for lost pages"):
            script = Path(lost_pages.__file__).read_text()
            found = self.vm.run("python3 -I -", timeout=120.0 * self.slow, stdin=script).text.splitlines()
            if found:
                self.results.reasons.append(
                    f"{len(found)} page(s) lost, the first at {found[0]} (tests/kernel/lost_pages.py)"
                )
            self.detail = f"{len(found)} page(s)"

    def find_leaks(self) -> None:
        """Two scans, as an object counts as lost only when the second one still finds nothing that points at it."""
        with self.step("look for leaks"):
            for _ in range(2):
                self.vm.run(f"sleep {LEAK_AGE}; echo scan > {KMEMLEAK}", timeout=90.0 * self.slow)
            found = self.vm.run(f"cat {KMEMLEAK}", timeout=30.0 * self.slow)
            (self.out / f"kmemleak{self.suffix}.txt").write_text(f"{found.text}\n")
            lost = leaks.leaks(found.text, splats.allowed(leaks.ALLOWED))
            self.results.reasons += [f"kmemleak: {line}" for line in lost]
            self.detail = f"{len(lost)} place(s)"

    def scan(self) -> None:
        with self.step("scan console and kernel log"):
            self.complain(self.vm.run("journalctl -k -b --no-pager -o cat").text)
            tainted = self.vm.run("cat /proc/sys/kernel/tainted").text
            if tainted != "0":
                self.results.reasons.append(f"the kernel is tainted ({tainted})")
            self.detail = f"taint {tainted}"
            if self.flavour.debug:
                state = self.vm.run(f"cat {lockdep_state.STATS}", check=False)
                self.results.reasons += lockdep_state.problems(state.text)

    def complain_of_console(self) -> None:
        self.complain(self.vm.console_text(), from_start=not self.resumed)

    def complain(self, log: str, from_start: bool = True) -> None:
        """Add the kernel splats of a log to the reasons, each once."""
        for splat in splats.scan(log, splats.allowed(), from_start):
            reason = f"kernel splat: {splat_list.unstamped(splat.text)}"
            if reason not in self.results.reasons:
                self.results.reasons.append(reason)


def folder(flavour: Flavour) -> Path:
    """Return where the results of a flavour's gate on the chosen kind of host are."""
    kind = image.chosen()
    words = ["gate", *([] if flavour == CLOUD else [flavour.name]), *([] if kind == image.BOOKWORM else [kind.name])]
    return BUILD / "-".join(words)


def numbers(flavour: Flavour) -> Sequence[int]:
    """Return the numbers of the hosts that share the tests: one keeps one processor of this machine busy."""
    return range(1, 3 if flavour.debug else 2)


def suffix(number: int) -> str:
    """Return what names of the second host and of its files end with; the first one has the plain names."""
    return "" if number == 1 else f"-{number}"


def slow(flavour: Flavour) -> int:
    """Return by how much every time limit is longer."""
    return 10 if flavour.debug else 1


def churn_seconds() -> int:
    text = os.environ.get("CHURN_SECONDS", str(CHURN_SECONDS))
    if not text.isdecimal() or int(text) == 0:
        raise UserError(f"CHURN_SECONDS is `{text}`", "give it a number of seconds")
    return int(text)


def allowed(flavour: Flavour) -> tuple[str, ...]:
    """Return what the selftests may do here. Filling memory takes a debug kernel hours; `make lockdep` does that."""
    return (READ_ERRORS,) if flavour.debug else (FILL, READ_ERRORS)


def lacking(want: Required, flavour: Flavour, have: Mapping[str, str]) -> bool:
    """Does the gate lack what a test may be skipped for want of: a permission, or an option of the kernel?"""
    if any(word in want.may_skip for word in allowed(flavour)):
        return False
    needs = NEEDS.search(want.may_skip)
    return not needs or have.get(needs[1]) not in ("y", "m")


def required(flavour: Flavour) -> list[Required]:
    """Return the tests that have to pass on a flavour; what it has the options for may not be skipped there."""
    files = [REQUIRED, REQUIRED_DEBUG] if flavour.debug else [REQUIRED]
    have = kconfig.parse(complete(flavour).read_text())
    try:
        listed = [want for path in files for want in parse_required(path.read_text(), path.name)]
        return [want if lacking(want, flavour, have) else replace(want, may_skip="") for want in listed]
    except errors.UserError as error:
        # The product has an error class of its own, because it stands alone on a host.
        what, _, hint = str(error).rpartition("; ")
        raise UserError(what, hint) from error


def subject(flavour: Flavour = CLOUD) -> str:
    """Return a hash of what the gate tests and of the rules."""
    total = hashlib.sha256(image.digest().encode())
    here = [Path(__file__), Path(lost_pages.__file__), Path(lockdep_state.__file__)]
    rules = [*here, REQUIRED, splats.ALLOWED, splats.LIST]
    rules += [REQUIRED_DEBUG, leaks.ALLOWED] if flavour.debug else []
    for path in (flavour.repo / "repodata" / "repomd.xml", *rules):
        total.update(path.read_bytes())
    return total.hexdigest()


def latest() -> Results:
    """Return the results of the last run if they are about the present packages and rules, else run the gate."""
    path = folder(CLOUD) / "results.json"
    if path.exists() and (CLOUD.repo / "repodata").exists():
        results = Results.read(path)
        if results.subject == subject():
            return results
    return run()


def booted(flavour: Flavour, fresh: Vm, url: str, results: Results) -> Saved:
    """Return a host that has booted the kernel, with what led to it in the results.

    One that an interrupted gate has left will do if it is about the same packages and rules.
    """
    place = fresh.directory.parent / "booted"
    saved = Saved(place / "host", fresh.cpus, fresh.memory_mib, fresh.nodes)
    if (place / "results.json").exists() and Results.read(place / "results.json").subject == results.subject:
        say(f"go on with the host that has booted before, in {place}")
        vars(results).update(vars(Results.read(place / "results.json")))
        return saved
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    gate = Gate(flavour, fresh, url, Work(), results)
    with fresh:
        try:
            gate.boot()
        finally:
            gate.complain_of_console()
        # Its clock may stand still for long, and no timer is to begin in the middle of a test.
        fresh.run(snapshots.SETTLE, timeout=COMMAND_TIMEOUT * gate.slow)
        fresh.save(saved)
    # Last: with it, the rest is complete.
    results.write(place)
    return saved


def share(
    flavour: Flavour, machines: Sequence[Vm], url: str, results: Results, what: Callable[[Gate], None], work: Work
) -> None:
    """Start hosts, have them share the selftests, and complete the results."""
    # Hosts are stopped before the pool waits for its threads, which ends whatever the threads wait for.
    with ThreadPoolExecutor(len(machines)) as pool, ExitStack() as stack:
        started = [stack.enter_context(vm) for vm in machines]
        gates = [Gate(flavour, vm, url, work, results, number) for number, vm in enumerate(started, 1)]
        running = [pool.submit(what, gate) for gate in gates]
        for gate, future in zip(gates, running):
            with results.refused():
                future.result()
            # Also after a failure, which the kernel may have explained there.
            with results.refused():
                gate.complain_of_console()
    results.complete = not any(future.exception() for future in running)
    results.tests = evaluate(required(flavour), work.reports)
    results.reasons += reasons(results.tests, work.reports)


def run(flavour: Flavour = CLOUD) -> Results:
    """Run the gate from start to end and write its results, also when it fails halfway."""
    results = Results()
    out = folder(flavour)
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").unlink(missing_ok=True)
    # Before anything is started: mistakes in these files, and in the environment.
    results.tests = evaluate(required(flavour), {})
    splats.allowed()
    splats.allowed(leaks.ALLOWED)
    churn_seconds()
    disk = image.build()
    results.accelerator = accelerator()[1].split(",")[0]
    with repo.served(flavour.repo) as url:
        results.subject = subject(flavour)
        # What the debug kernel needs for itself comes on top, and so each test fills as much as on the others.
        memory = 3072 if flavour.debug else 2048
        alone = len(numbers(flavour)) == 1
        fresh = Vm(disk, out / ("vm" if alone else "boot"), out.name, memory_mib=memory, nodes=2)
        if alone:
            share(flavour, [fresh], url, results, Gate.run, Work())
        else:
            with results.refused():
                saved = booted(flavour, fresh, url, results)
                machines = [saved.machine(out / f"vm{suffix(n)}", f"{out.name}{suffix(n)}") for n in numbers(flavour)]
                share(flavour, machines, url, results, Gate.go_on, Work(out / "booted" / "reports"))
    results.write(out)
    # A gate that comes to its end is followed by one from the start.
    shutil.rmtree(out / "booted", ignore_errors=True)
    return results


def command() -> int:
    parser = argparse.ArgumentParser(description="Install, boot and test the kernel in a virtual host.")
    flavours.add_option(parser)
    flavour = flavours.FLAVOURS[parser.parse_args().flavour]
    results = run(flavour)
    print(results.table())
    out = folder(flavour).relative_to(ROOT)
    say(f"results: {out / 'results.json'}, {out / 'junit.xml'}")
    return 0 if results.verdict == "pass" else 1


if __name__ == "__main__":
    main(command)
