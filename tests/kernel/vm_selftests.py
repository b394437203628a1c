"""Run the base kernel's own vm selftests on the stock kernel and on kernel-thp, in one host; none may be worse on ours.

Results: build/vm-selftests/stock.json and thp.json, with the output of each program beside them. A test that
fails on the stock kernel too, because a virtual host lacks memory or time, says nothing about the series.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from lab import image, repo, splats
from lab.host import Host
from lab.vm import Vm
from scripts import files, lock
from scripts.console import BUILD, UserError, main, run_logged, say
from scripts.flavours import CLOUD

LIST = Path(__file__).resolve().parent / "vm-selftests.txt"
OUT = BUILD / "vm-selftests"
LINE = re.compile(r"^(\d+)(\*?) +(\S.*)$")
TAP = re.compile(r"^\s*(not )?ok \d+\s+(?:- )?(.*?)\s*(# *SKIP.*)?$", re.IGNORECASE)
GUEST = "/root/vm-selftests"
# khugepaged has its own format: a title, and steps below it, each with a word in green or in red.
TITLE = re.compile(r"^Run test: (.*?)\s*$")
RED = "\033[31m"
SKIPPED, TIMED_OUT, SIGNALS = 4, 124, 128
# Some programs wait for the kernel for a few seconds only, too short on a busy machine. If a program fails, it gets two
# more tries on either kernel, and most of the three decide.
TRIES = 3
# From worst to best.
RANK = ("fail", "skip", "pass")
SWAP = "/dev/nvme0n1"


@dataclass(frozen=True)
class Program:
    command: str
    seconds: int
    endless: bool

    @property
    def binary(self) -> str:
        return self.command.split()[0]


@dataclass
class Outcome:
    command: str
    verdict: str
    detail: str
    seconds: float
    tests: dict[str, str] = field(default_factory=dict)
    tries: int = 1


def parse_list(text: str, origin: str) -> list[Program]:
    programs = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = LINE.match(line)
        if match is None:
            raise UserError(f"{origin}:{number}: not `SECONDS COMMAND`", "fix the line")
        programs.append(Program(match.group(3).strip(), int(match.group(1)), bool(match.group(2))))
    twice = [command for command, count in Counter(program.command for program in programs).items() if count > 1]
    if twice or not programs:
        raise UserError(f"{origin}: {f'`{twice[0]}` is there twice' if twice else 'no program'}", "fix the list")
    return programs


def build(programs: list[Program]) -> Path:
    """Compile them statically against the tree's headers, and return an archive of what the guest needs."""
    tree = BUILD / "tree" / lock.used().series
    objects, log = OUT / "objects", BUILD / "logs" / "vm-selftests.log"
    objects.mkdir(parents=True, exist_ok=True)
    # The flags of this make are not meant for the kernel's.
    env = {key: "" for key in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL") if key in os.environ}
    hint = "read the log; static libraries of libnuma and libcap are needed (`make deps`)"
    jobs = f"-j{os.cpu_count() or 1}"
    headers = ["make", "-s", jobs, "-C", str(tree), f"O={OUT / 'headers'}", "headers"]
    run_logged(headers, log, "kernel headers", hint, env=env)
    binaries = sorted({program.binary for program in programs})
    command = ["make", jobs, "-C", str(tree / "tools" / "testing" / "selftests" / "vm"), f"OUTPUT={objects}"]
    command += ["CC=gcc -static", f"KHDR_INCLUDES=-isystem {OUT / 'headers' / 'usr' / 'include'}"]
    run_logged([*command, *(str(objects / name) for name in binaries)], log, "vm selftests", hint, env=env)
    archive = OUT / "programs.tar"
    with tarfile.open(archive, "w") as tar:
        for name in binaries:
            tar.add(objects / name, name)
    return archive


def evaluate(program: Program, code: int) -> tuple[str, str]:
    if code == 0 or (code == TIMED_OUT and program.endless):
        return "pass", ""
    if code == SKIPPED:
        return "skip", "exit code 4"
    if code == TIMED_OUT:
        return "fail", f"no end within {program.seconds} s"
    return "fail", f"killed by signal {code - SIGNALS}" if code > SIGNALS else f"exit code {code}"


def subtests(lines: list[str]) -> dict[str, str]:
    """Return the verdicts of the tests in a program: TAP, or khugepaged's format."""
    found: dict[str, str] = {}
    title = ""
    for line in lines:
        if match := TITLE.match(line):
            title = match.group(1)
            found[title] = "pass"
        elif title and RED in line:
            found[title] = "fail"
        elif match := TAP.match(line):
            verdict = "fail" if match.group(1) else "skip" if match.group(3) else "pass"
            name = match.group(2)
            # Some programs use a name more than once.
            repeated = sum(known == name or known.startswith(f"{name} #") for known in found)
            found[f"{name} #{repeated + 1}" if repeated else name] = verdict
    return found


def run_one(vm: Vm, program: Program, log: Path) -> Outcome:
    command = f"cd {GUEST} && timeout -k 5 {program.seconds} ./{program.command} < /dev/null"
    began = time.monotonic()
    done = vm.run(command, timeout=program.seconds + 60.0, check=False)
    lines = [line.text for line in done.lines]
    log.write_text("\n".join([*lines, ""]))
    verdict, detail = evaluate(program, done.code)
    return Outcome(program.command, verdict, detail, time.monotonic() - began, subtests(lines))


def decided(tries: Sequence[Outcome]) -> bool:
    """Tell whether another try could not change the verdict of the program or of one of its tests."""
    if not tries or len(tries) == TRIES:
        return bool(tries)
    first, last = tries[0], tries[-1]
    return first.verdict != "fail" or (len(tries) > 1 and (first.verdict, first.tests) == (last.verdict, last.tests))


def middle(verdicts: Iterable[str]) -> str:
    found = sorted(verdicts, key=RANK.index)
    return found[len(found) // 2]


def most(tries: Sequence[Outcome]) -> Outcome:
    """Return what most tries say about the program, and about each of its tests. A test that is gone has failed."""
    verdict = middle(one.verdict for one in tries)
    names = dict.fromkeys(name for one in tries for name in one.tests)
    tests = {name: middle(one.tests.get(name, "fail") for one in tries) for name in names}
    like = next(one for one in tries if one.verdict == verdict)
    return replace(like, tests=tests, tries=len(tries))


def run_all(vm: Vm, programs: list[Program], kernel: str) -> list[Outcome]:
    folder = OUT / kernel
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    uname = vm.run("uname -r").text
    outcomes = []
    for program in programs:
        name = re.sub(r"[^A-Za-z0-9]+", "-", program.command)
        tries: list[Outcome] = []
        while not decided(tries):
            attempt = len(tries) + 1
            say(f"{kernel}: {program.command}" + (f", try {attempt}" if attempt > 1 else ""))
            tries.append(run_one(vm, program, folder / f"{name}-{attempt}.log"))
        outcomes.append(most(tries))
    write(kernel, uname, outcomes)
    return outcomes


def write(kernel: str, uname: str, outcomes: list[Outcome]) -> None:
    text = json.dumps({"uname": uname, "programs": [asdict(outcome) for outcome in outcomes]}, indent=2)
    files.replace(OUT / f"{kernel}.json", f"{text}\n")


def worse(stock: list[Outcome], thp: list[Outcome]) -> list[str]:
    """Return what is worse than on the stock kernel, by program and by test."""
    found = []
    for before, after in zip(stock, thp):
        if RANK.index(after.verdict) < RANK.index(before.verdict):
            found.append(f"{after.command}: {after.verdict} ({after.detail}), on the stock kernel {before.verdict}")
        for name, verdict in before.tests.items():
            now = after.tests.get(name, "fail")
            if RANK.index(now) < RANK.index(verdict):
                found.append(f"{after.command}: `{name}`: {now}, on the stock kernel {verdict}")
    return found


def prepare(vm: Vm, archive: Path) -> None:
    """Bring both kernels into the same state: swap on a disk, and their defaults."""
    vm.unpack(archive, GUEST)
    vm.run(f"mkswap -q {SWAP} && swapon {SWAP}")


def table(stock: list[Outcome], thp: list[Outcome]) -> str:
    width = max(len(outcome.command) for outcome in stock)
    lines = [f"{'program':<{width}}  {'stock':<6}{'time':>7}  {'thp':<6}{'time':>7}"]
    for before, after in zip(stock, thp):
        times = f"{before.verdict:<6}{before.seconds:6.1f}s  {after.verdict:<6}{after.seconds:6.1f}s"
        counts = Counter(after.tests.values())
        tests = ", ".join(f"{counts[word]} {word}" for word in reversed(RANK) if counts[word])
        tries = f" ({before.tries} and {after.tries} tries)" if before.tries + after.tries > 2 else ""
        lines.append(f"{before.command:<{width}}  {times}  {after.detail or tests}{tries}".rstrip())
    return "\n".join(lines)


def command() -> int:
    programs = parse_list(LIST.read_text(), LIST.name)
    exceptions = splats.allowed()
    archive = build(programs)
    disk = image.build()
    for kernel in ("stock", "thp"):
        (OUT / f"{kernel}.json").unlink(missing_ok=True)
    machine = Vm(disk, OUT / "vm", "vm-selftests", memory_mib=4096, nodes=2, swap_mib=512)
    with repo.served() as url, machine as vm:
        host = Host(vm)
        vm.wait_ssh()
        host.use_repository(url)
        host.install(CLOUD.package)
        uname = host.uname()
        prepare(vm, archive)
        stock = run_all(vm, programs, "stock")
        entry = host.entry(uname)
        host.loader.set_once(entry)
        seen = len(vm.console_text())
        say(host.reboot_into(uname, entry))
        prepare(vm, archive)
        thp = run_all(vm, programs, "thp")
        complaints = splats.scan(vm.console_text()[seen:], exceptions)
    reasons = worse(stock, thp) + [f"kernel splat: {splat.text}" for splat in complaints]
    print(table(stock, thp))
    for reason in reasons:
        print(f"reason: {reason}")
    say(f"vm-selftests: {'fail' if reasons else 'pass'}: {len(programs)} programs, results in build/vm-selftests/")
    return 1 if reasons else 0


if __name__ == "__main__":
    main(command)
