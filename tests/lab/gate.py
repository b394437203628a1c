"""The gate: a fresh host installs kernel-thp by dnf, boots it by its own boot loader and runs the selftests.

The host has two NUMA nodes, because some selftests migrate huge pages. Nothing is faked between `dnf install`
and the verdict. Results: build/gate/results.json, junit.xml, ktap/, vm/console.log.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.console import BUILD, ROOT, UserError, main, say
from tests.lab import image, repo, splats
from tests.lab.accel import accelerator
from tests.lab.judge import Required, judge, parse_required, reasons
from tests.lab.ktap import Report, parse
from tests.lab.results import Results, Step
from tests.lab.vm import Vm

GATE = BUILD / "gate"
REQUIRED = ROOT / "tests" / "selftests" / "required.txt"
SELFTESTS = "/usr/libexec/kselftests"
# The console has the time before each line, the journal has not.
STAMP = re.compile(r"^\[ *\d+\.\d+\] ")
PACKAGE = "kernel-thp-core"
UNAME_FORMAT = "%{VERSION}-%{RELEASE}.%{ARCH}+thp"
INSTALL_TIMEOUT = 600.0
PROGRAM_TIMEOUT = 420.0


class Gate:
    """One run on one host; every step adds to the results, and the first one that fails ends the run."""

    def __init__(self, vm: Vm, url: str, required: list[Required], results: Results) -> None:
        self.vm = vm
        self.url = url
        self.required = required
        self.results = results
        self.detail = ""

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        say(name)
        self.detail = ""
        began = time.monotonic()
        try:
            yield
        except UserError as error:
            self.results.steps.append(Step(name, time.monotonic() - began, str(error), False))
            raise
        self.results.steps.append(Step(name, time.monotonic() - began, self.detail, True))

    def run(self) -> None:
        self.start_stock()
        self.install_selftests()
        self.install_kernel()
        self.boot_once()
        self.check_host()
        self.run_selftests()
        self.scan()
        self.return_to_stock()
        self.results.complete = True

    def start_stock(self) -> None:
        with self.step("boot the stock kernel"):
            self.vm.wait_ssh()
            self.detail = self.results.stock = self.vm.run("uname -r").text
            self.vm.run(f"bootctl set-default {self.entry(self.results.stock)}")

    def dnf_install(self, *names: str) -> None:
        """Install, and make sure that it is one transaction in dnf's history."""
        log = self.vm.directory / "dnf.log"
        done = self.vm.run(f"dnf -y install {' '.join(names)}", timeout=INSTALL_TIMEOUT, check=False)
        with log.open("a") as handle:
            handle.writelines(f"{line.seconds:6.1f} {line.text}\n" for line in done.lines)
        if done.code != 0:
            last = " / ".join(line.text for line in done.lines[-3:])
            raise UserError(f"dnf install {' '.join(names)} ended with {done.code}: {last}", f"read {log}")

    def install_selftests(self) -> None:
        with self.step("dnf install kernel-thp-selftests, OOM experiment"):
            self.vm.write("/etc/yum.repos.d/kernel-thp.repo", repo.repo_file(self.url))
            self.dnf_install("kernel-thp-selftests")
            self.results.before = self.oom_experiment()
            self.detail = f"{len(self.results.before)} settings"

    def oom_experiment(self) -> list[str]:
        report = self.vm.run(f"cd {SELFTESTS}/thp && ./thp_oom --report", check=False)
        lines = [line.text for line in report.lines if line.text.startswith("threshold=")]
        if not lines:
            said = " / ".join(line.text for line in report.lines[-3:])
            raise UserError(f"thp_oom --report printed no threshold line: {said}", "run it by hand in `make vm`")
        return lines

    def install_kernel(self) -> None:
        with self.step("dnf install kernel-thp"):
            self.dnf_install("kernel-thp", "kernel-thp-selftests")
            self.results.nevra = self.vm.run(f"rpm -q {PACKAGE}").text
            self.results.uname = self.vm.run(f"rpm -q --qf '{UNAME_FORMAT}' {PACKAGE}").text
            if len(self.results.nevra.splitlines()) != 1:
                raise UserError(f"{PACKAGE} is not there exactly once: {self.results.nevra}", "look at build/repo")
            self.detail = self.results.nevra
            self.entry(self.results.uname)

    def entry(self, uname: str) -> str:
        """Return the file name of a kernel's boot entry, with its tries if it has any.

        It is also the id to give systemd-boot 252. What bootctl lists as id lacks the tries, and the loader does not
        find an entry by that (tests/kernel/test_boot_counting.py holds it to this).
        """
        form = re.compile(rf"lab-{re.escape(uname)}(?:\+\d+(?:-\d+)?)?\.conf")
        names = self.vm.run("ls /efi/loader/entries").text.split()
        found = [name for name in names if form.fullmatch(name)]
        if len(found) != 1:
            raise UserError(f"no single boot entry for {uname} among {names}", "check what kernel-install wrote")
        return found[0]

    def reboot_into(self, uname: str, entry: str) -> None:
        """Reboot, and prove that this kernel runs and that it was the boot loader who chose it."""
        self.vm.reboot()
        running = self.vm.run("uname -r").text
        if running != uname:
            raise UserError(f"uname -r is {running}, expected {uname}", f"read {self.vm.console}")
        selected = self.vm.loader_variable("LoaderEntrySelected")
        if selected != entry:
            raise UserError(f"the boot loader started {selected}, expected {entry}", f"read {self.vm.console}")
        self.detail = f"{running}, the boot loader chose {selected}"

    def boot_once(self) -> None:
        with self.step("boot kernel-thp once"):
            entry = self.entry(self.results.uname)
            self.vm.run(f"bootctl set-oneshot {entry}")
            self.reboot_into(self.results.uname, entry)

    def return_to_stock(self) -> None:
        with self.step("reboot into the default, the stock kernel"):
            self.reboot_into(self.results.stock, self.entry(self.results.stock))

    def check_host(self) -> None:
        with self.step("check the host"):
            self.vm.run(f"rpm -V {PACKAGE}")
            history = self.vm.run("dnf history list kernel-thp").text
            if "kernel-thp" not in history:
                raise UserError("dnf history does not know kernel-thp", f"it says: {history}")
            # systemd blesses the entry when boot-complete.target is reached: the tries go, the plus sign stays.
            blessed = f"/efi/loader/entries/lab-{self.results.uname}.conf"
            self.vm.run(f"timeout 60 sh -c 'until [ -e {blessed} ]; do sleep 1; done'", timeout=90)
            self.detail = "rpm -V clean, in dnf history, boot entry blessed"

    def run_selftests(self) -> None:
        listed = self.vm.run(f"cat {SELFTESTS}/kselftest-list.txt").text.split()
        reports: dict[str, Report] = {}
        try:
            for entry in listed:
                with self.step(entry):
                    reports[entry] = self.run_program(entry)
            with self.step("OOM experiment"):
                self.results.after = self.oom_experiment()
        finally:
            self.results.tests = judge(self.required, reports)
            self.results.reasons += reasons(self.results.tests, reports)

    def run_program(self, entry: str) -> Report:
        log = GATE / "ktap" / f"{entry.replace(':', '-')}.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("w") as handle:
            # Through cat, as the runner opens /dev/stdout again, which a socket does not allow.
            done = self.vm.run(
                f"{SELFTESTS}/run_kselftest.sh -t {entry} 2>&1 | cat",
                timeout=PROGRAM_TIMEOUT,
                on_line=lambda line: print(line, file=handle, flush=True),
            )
        report = parse([line.text for line in done.lines], [line.seconds for line in done.lines])
        verdicts = [leaf.verdict for leaf in report.leaves()]
        self.detail = ", ".join(f"{verdicts.count(word)} {word}" for word in sorted(set(verdicts)))
        return report

    def scan(self) -> None:
        with self.step("scan console and kernel log"):
            self.complain(self.vm.run("journalctl -k -b --no-pager -o cat").text)
            tainted = self.vm.run("cat /proc/sys/kernel/tainted").text
            if tainted != "0":
                self.results.reasons.append(f"the kernel is tainted ({tainted})")
            self.detail = f"taint {tainted}"

    def complain(self, log: str) -> None:
        """Add the kernel splats of a log to the reasons, each once."""
        for splat in splats.scan(log, splats.allowed()):
            reason = f"kernel splat: {STAMP.sub('', splat.text)}"
            if reason not in self.results.reasons:
                self.results.reasons.append(reason)


def subject() -> str:
    """Return a hash of what the gate judges and by which rules."""
    total = hashlib.sha256(image.digest().encode())
    for path in (repo.REPO / "repodata" / "repomd.xml", REQUIRED, splats.ALLOWED):
        total.update(path.read_bytes())
    return total.hexdigest()


def latest() -> Results:
    """Return the results of the last run if they are about the present packages and rules, else run the gate."""
    path = GATE / "results.json"
    if path.exists() and (repo.REPO / "repodata").exists():
        results = Results.read(path)
        if results.subject == subject():
            return results
    return run()


def run() -> Results:
    """Run the gate from start to end and write its results, also when it fails halfway."""
    results = Results()
    GATE.mkdir(parents=True, exist_ok=True)
    (GATE / "results.json").unlink(missing_ok=True)
    required = parse_required(REQUIRED.read_text(), REQUIRED.name)
    splats.allowed()
    disk = image.build()
    results.tests = judge(required, {})
    results.accelerator = accelerator()[1].split(",")[0]
    with repo.served() as url, Vm(disk, GATE / "vm", "gate", nodes=2) as vm:
        results.subject = subject()
        gate = Gate(vm, url, required, results)
        try:
            gate.run()
        except UserError as error:
            results.reasons.insert(0, str(error))
        # Also after a failure, which the kernel may have explained there.
        gate.complain(vm.console_text())
        results.write(GATE)
    return results


def command() -> int:
    results = run()
    print(results.table())
    say(f"results: {Path('build/gate/results.json')}, {Path('build/gate/junit.xml')}")
    return 0 if results.verdict == "pass" else 1


if __name__ == "__main__":
    main(command)
