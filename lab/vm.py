"""Start, watch, reboot and stop a lab host: a UEFI virtual machine on a throw-away overlay of the image.

Start VMs from the main thread: the kernel kills qemu when the thread that started it ends, however it ends.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import queue
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from lab import image, secure_boot, splat_list
from lab.accel import QEMU, accelerator
from lab.qmp import Monitor
from lab.splats import fatal
from scripts.console import BUILD, UserError, say, tail

RUN = BUILD / "lab" / "run"
BOOT_TIMEOUT = 300.0
COMMAND_TIMEOUT = 300.0
POLL = 0.3
# The last line of a kernel that restarts the machine, and the seconds in which the firmware has said something, unless
# it hangs, as that of an emulated machine seems to have done.
RESTART = "reboot: machine restart"
FIRMWARE_TIMEOUT = 60.0
# A busy debug kernel takes half a minute to let somebody in.
CONNECT_TIMEOUT = 60.0
FIRMWARE = (
    (Path("/usr/share/OVMF/OVMF_CODE_4M.fd"), Path("/usr/share/OVMF/OVMF_VARS_4M.fd")),
    (Path("/usr/share/edk2/ovmf/OVMF_CODE.fd"), Path("/usr/share/edk2/ovmf/OVMF_VARS.fd")),
)
# These have Microsoft's certificates and refuse what is not signed.
SECURE_FIRMWARE = (
    (Path("/usr/share/OVMF/OVMF_CODE_4M.secboot.fd"), Path("/usr/share/OVMF/OVMF_VARS_4M.ms.fd")),
    (Path("/usr/share/edk2/ovmf/OVMF_CODE.secboot.fd"), Path("/usr/share/edk2/ovmf/OVMF_VARS.secboot.fd")),
)
# The guest must not write to the firmware's variables but through the firmware.
SECURE_MACHINE = ("-machine", "smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on")
SSH_FAILED = 255
# Root ports of PCI Express, by the names that the monitor knows.
PORTS = ("port1", "port2")
EFIVARS = "/sys/firmware/efi/efivars"
LOADER_GUID = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"


@dataclass(frozen=True)
class Saved:
    """A stopped machine with its memory: one of the same size that starts from it continues where this one stopped."""

    stem: Path
    cpus: int
    memory_mib: int
    nodes: int = 1

    @property
    def disk(self) -> Path:
        return self.stem.with_suffix(".qcow2")

    @property
    def variables(self) -> Path:
        return self.stem.with_suffix(".fd")

    @property
    def memory(self) -> Path:
        return self.stem.with_suffix(".memory")

    def machine(self, directory: Path, name: str = "host", durable: bool = False) -> Vm:
        return Vm(self.disk, directory, name, self.cpus, self.memory_mib, self.nodes, durable=durable, saved=self)


class DeadHost(UserError):
    """The guest's kernel panicked, or qemu is gone."""


class NoAnswer(UserError):
    """The guest runs but did not do its task within the time limit."""


@dataclass
class Line:
    seconds: float
    text: str


@dataclass
class Result:
    code: int
    lines: list[Line] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)


def firmware(secure: bool = False) -> tuple[Path, Path]:
    """Return the code, and the variables that a machine starts with."""
    for code, variables in SECURE_FIRMWARE if secure else FIRMWARE:
        if code.exists() and variables.exists():
            return code, variables
    raise UserError("no UEFI firmware for qemu (OVMF) found", "run `make deps`")


@functools.cache
def sockets() -> Path:
    """Return the directory of ssh's sockets: their names must be short, and the path of a clone can be long."""
    folder = tempfile.mkdtemp(prefix="kt")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Vm:
    """One host. Use as a context manager: leaving it stops qemu, and keeps the logs only."""

    def __init__(
        self,
        disk: Path,
        directory: Path,
        name: str = "host",
        cpus: int = 2,
        memory_mib: int = 2048,
        nodes: int = 1,
        swap_mib: int = 0,
        durable: bool = False,
        saved: Saved | None = None,
        secure_boot: bool = False,
        hotplug: bool = False,
    ) -> None:
        """What a guest flushes to a durable disk survives power_off().

        With Secure Boot, the firmware trusts Microsoft's certificates, and shim the lab's. With hotplug, the machine
        has sockets for as many processors and as much memory again, and PORTS for cards.
        """
        self.disk = disk
        self.directory = directory
        self.name = name
        self.cpus = cpus
        self.memory_mib = memory_mib
        self.nodes = nodes
        self.swap_mib = swap_mib
        self.durable = durable
        self.secure_boot = secure_boot
        self.hotplug = hotplug
        self.overlay = directory / "disk.qcow2"
        self.variables = directory / "vars.fd"
        self.console = directory / "console.log"
        self.port = 0
        # Seconds in which a guest without an answer counts as busy, and not as gone.
        self.silence = 60.0
        self._saved = saved
        self._clock_stood_still = False
        self._qemu_log = directory / "qemu.log"
        self._lock: IO[str] | None = None
        self._qemu: subprocess.Popen[bytes] | None = None
        self._monitor: Monitor | None = None
        self._seen = 0
        # When it got power, and how long the console was then.
        self._powered, self._printed = 0.0, 0
        self._frozen = False

    def __enter__(self) -> Vm:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Life

    def start(self) -> None:
        _, variables = firmware(self.secure_boot)
        self._claim()
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        shutil.copyfile(self._saved.variables if self._saved else variables, self.variables)
        if self.secure_boot:
            secure_boot.enroll(self.variables)
        base = ["-b", str(self.disk.resolve()), "-F", "qcow2"]
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *base, str(self.overlay)], check=True)
        self.port = free_port()
        if self._saved is None:
            self.power_on()
        else:
            self._clock_stood_still = True
            self.power_on("-incoming", f"exec:cat {shlex.quote(str(self._saved.memory))}")

    def power_on(self, *options: str) -> None:
        """Start qemu with the present disk and EFI variables."""
        code, _ = firmware(self.secure_boot)
        self._powered, self._printed = time.time(), len(self.console_text())
        ours, its = socket.socketpair()
        monitor = ["-chardev", f"socket,id=monitor,fd={its.fileno()}", "-mon", "chardev=monitor,mode=control"]
        with its, self._qemu_log.open("ab") as log:
            self._qemu = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.command_line(code), *monitor, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=[its.fileno()],
            )
        self._monitor = Monitor(ours)

    def save(self, saved: Saved) -> None:
        """Stop it for good, whatever it is doing, and save its state for others to start from."""
        self.monitor.migrate(f"exec:cat > {shlex.quote(str(saved.memory))}")
        self.monitor.execute("quit")
        self._running().wait()
        self._qemu = None
        self.variables.replace(saved.variables)
        self.overlay.replace(saved.disk)

    @property
    def monitor(self) -> Monitor:
        """What plugs devices into the running machine; another power_on() has another one."""
        assert self._monitor is not None, f"{self.name} was not started"
        return self._monitor

    def power_off(self) -> None:
        """Cut the power: the guest gets no chance to write anything."""
        self._running().kill()
        self._running().wait()
        self._qemu = None

    def shut_down(self, timeout: float = BOOT_TIMEOUT) -> None:
        """Let the guest's own systemd shut it down, which leaves disk and EFI variables consistent."""
        # It may be gone before ssh has noticed that the command is over. What counts is whether it goes.
        with contextlib.suppress(DeadHost, NoAnswer):
            self.run("systemctl --no-block poweroff", timeout=60, check=False)
        try:
            self._running().wait(timeout)
        except subprocess.TimeoutExpired:
            raise self._no_answer("it did not shut down", timeout) from None
        self._qemu = None

    def freeze(self) -> None:
        """Stop the machine between two instructions; for others its network is gone."""
        self._running().send_signal(signal.SIGSTOP)
        self._frozen = True

    def thaw(self) -> None:
        self._running().send_signal(signal.SIGCONT)
        self._frozen = False

    @property
    def running(self) -> bool:
        """Return whether it has power and is not frozen; it may still not answer."""
        return self._qemu is not None and self._qemu.poll() is None and not self._frozen

    def _running(self) -> subprocess.Popen[bytes]:
        if self._qemu is None:
            raise UserError(f"{self.name} has no power", "power_on() first")
        return self._qemu

    def _claim(self) -> None:
        """Hold the directory until stop(), so that no other command starts a host in it."""
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self._lock = self.directory.with_name(self.directory.name + ".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise UserError(f"another command runs a host in {self.directory}", "wait for it to end") from None

    def command_line(self, code: Path) -> list[str]:
        """Return the command line of qemu, which a saved machine depends on."""
        forward = f"user,id=net,restrict=off,hostfwd=tcp:127.0.0.1:{self.port}-:22"
        command = [QEMU, *accelerator(), "-machine", "q35", "-nodefaults", "-display", "none", "-name", self.name]
        places, memory = self.cpus, str(self.memory_mib // self.nodes * self.nodes)
        if self.hotplug:
            places, memory = 2 * self.cpus, f"{memory},slots=1,maxmem={2 * self.memory_mib}M"
            for number, port in enumerate(PORTS, 1):
                command += ["-device", f"pcie-root-port,id={port},chassis={number}"]
        # A socket for each node: Linux warns when processors of one socket are on several nodes.
        processors = f"{self.cpus},sockets={self.nodes}" + (f",maxcpus={places}" if self.hotplug else "")
        command += ["-smp", processors, "-m", memory]
        share = self.memory_mib // self.nodes
        for node in range(self.nodes):
            first = node * places // self.nodes
            last = (node + 1) * places // self.nodes - 1
            command += ["-object", f"memory-backend-ram,id=memory{node},size={share}M"]
            command += ["-numa", f"node,nodeid={node},memdev=memory{node},cpus={first}-{last}"]
        command += SECURE_MACHINE if self.secure_boot else ()
        command += ["-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={code}"]
        command += ["-drive", f"if=pflash,format=raw,unit=1,file={self.variables}"]
        # Most lab disks are thrown away and need not survive a crash of qemu. One whose power is cut must: with
        # `unsafe`, tables that qemu has not yet written are lost, and with them data that the guest has flushed.
        cache = "writeback" if self.durable else "unsafe"
        command += ["-drive", f"if=none,id=disk,format=qcow2,cache={cache},discard=unmap,file={self.overlay}"]
        command += ["-device", "virtio-blk-pci,drive=disk,bootindex=0"]
        command += ["-netdev", forward, "-device", "virtio-net-pci,netdev=net,romfile="]
        command += ["-device", "virtio-rng-pci"]
        command += ["-chardev", f"file,id=console,append=on,path={self.console}", "-serial", "chardev:console"]
        if self.swap_mib:
            swap = image.sparse(self.directory / "swap.img", self.swap_mib)
            command += ["-drive", f"if=none,id=swap,format=raw,cache=unsafe,file={swap}"]
            command += ["-device", "nvme,drive=swap,serial=swap"]
        return command

    def stop(self) -> None:
        if self._qemu is not None:
            self.thaw()
            self._qemu.terminate()
            try:
                self._qemu.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._qemu.kill()
                self._qemu.wait()
            self._qemu = None
        for path in (self.overlay, self.variables, self.directory / "swap.img"):
            path.unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.close()

    # Watching

    def console_text(self) -> str:
        return self.console.read_text(errors="replace") if self.console.exists() else ""

    def watch(self) -> None:
        """Raise if the guest cannot go on."""
        text = self.console_text()
        dead = fatal(text[self._seen :])
        if dead is not None:
            raise DeadHost(f"{self.name}: the kernel died: {dead}", f"read the console log {self.console}")
        if self._qemu is None or self._qemu.poll() is not None:
            why = " ".join(tail(self._qemu_log, 2)) or "no message"
            raise DeadHost(f"{self.name}: qemu is gone ({why})", f"read {self._qemu_log} and {self.console}")

    @property
    def powered_off(self) -> bool:
        return self._qemu is not None and self._qemu.poll() == 0

    def forgive(self) -> None:
        """Make watch() ignore the console output so far."""
        self._seen = len(self.console_text())

    def _no_answer(self, what: str, timeout: float) -> NoAnswer:
        text = self.console_text()
        splat = next((line.strip() for line in text.splitlines() if splat_list.kind(line)), None)
        last = text.strip().splitlines()[-1:] or ["nothing"]
        message = f"first kernel complaint: {splat}" if splat else f"last console line: {last[0].strip()}"
        return NoAnswer(
            f"{self.name}: {what} within {timeout:.0f} s ({message})", f"read the console log {self.console}"
        )

    def wait_console(self, text: str, timeout: float) -> None:
        """Wait until the console says something, from where watch() stands."""
        deadline = time.monotonic() + timeout
        while text not in self.console_text()[self._seen :]:
            self.watch()
            if time.monotonic() > deadline:
                raise self._no_answer(f"the console did not say `{text}`", timeout)
            time.sleep(POLL)

    # Talking

    def ssh_options(self) -> list[str]:
        """Return the options of ssh besides port and key; the settings of this machine are ignored."""
        options = {
            "StrictHostKeyChecking": "accept-new",
            "UserKnownHostsFile": str(self.directory / "known_hosts"),
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": f"{CONNECT_TIMEOUT:.0f}",
            "LogLevel": "ERROR",
        }
        return ["-F", "none", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]

    def ssh_command(self, *extra: str) -> list[str]:
        # Not in ssh_options(): callers that connect in another way must notice by themselves that a host is gone.
        way = ["-i", str(image.ssh_key()), "-p", str(self.port), "-o", f"ServerAliveInterval={self.silence / 3:.0f}"]
        # A new connection costs each command more than a second of emulation. This one ends with its host.
        shared = ["-o", "ControlMaster=auto", "-o", "ControlPersist=yes", "-o", f"ControlPath={sockets()}/{self.port}"]
        return ["ssh", *self.ssh_options(), *way, *shared, *extra, "root@127.0.0.1"]

    def run(
        self,
        script: str,
        timeout: float = COMMAND_TIMEOUT,
        check: bool = True,
        stdin: str = "",
        on_line: Callable[[str], None] | None = None,
    ) -> Result:
        """Run a shell script in the guest; return both outputs as one, each line with the seconds since the start."""
        began = time.monotonic()
        child = subprocess.Popen(
            [*self.ssh_command(), script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert child.stdin is not None and child.stdout is not None
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_drain, args=(child.stdout, lines), daemon=True).start()
        result = Result(SSH_FAILED)
        try:
            with contextlib.suppress(BrokenPipeError):
                child.stdin.write(stdin)
                child.stdin.close()
            while True:
                try:
                    line = lines.get(timeout=POLL)
                except queue.Empty:
                    self.watch()
                    if time.monotonic() - began > timeout:
                        raise self._no_answer(f"`{script[:60]}` did not end", timeout) from None
                    continue
                if line is None:
                    break
                result.lines.append(Line(time.monotonic() - began, line))
                if on_line is not None:
                    on_line(line)
            result.code = child.wait()
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        if check and result.code != 0:
            self.watch()
            last = " / ".join(line.text for line in result.lines[-3:])
            what = f"{self.name}: `{script[:60]}` ended with {result.code}: {last}"
            raise UserError(what, f"read the console log {self.console}")
        return result

    def write(self, path: str, text: str) -> None:
        self.run(f"mkdir -p $(dirname {path}) && cat > {path}", stdin=text)

    def unpack(self, archive: Path, directory: str) -> None:
        """Copy the files of a tar archive into the guest."""
        script = f"mkdir -p {directory} && tar -x -C {directory} -f -"
        with archive.open("rb") as content:
            done = subprocess.run(
                [*self.ssh_command(), script], stdin=content, capture_output=True, text=True, timeout=COMMAND_TIMEOUT
            )
        if done.returncode != 0:
            self.watch()
            raise UserError(f"{self.name}: {archive.name} cannot be unpacked: {done.stderr.strip()}", "check its disk")

    def loader_variable(self, name: str) -> str:
        """Return a string that systemd-boot left for the running system: four bytes of attributes, then UTF-16."""
        return self.run(f"cat {EFIVARS}/{name}-{LOADER_GUID} | tail -c +5 | tr -d '\\000'").text

    def boot_id(self) -> str:
        return self.run("cat /proc/sys/kernel/random/boot_id", timeout=60, check=False).text

    def _banner(self, timeout: float) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def _answers(self, not_boot: str) -> bool:
        """Return whether the guest takes commands in another boot; one that shuts down may answer for a moment."""
        try:
            done = self.run("cat /proc/sys/kernel/random/boot_id", timeout=2 * CONNECT_TIMEOUT, check=False)
        except NoAnswer:
            return False
        return done.code == 0 and done.text != not_boot

    def wait_ssh(self, timeout: float = BOOT_TIMEOUT, not_boot: str = "") -> None:
        """Wait until the guest takes commands, in another boot than not_boot."""
        began = time.monotonic()
        was_reset = False
        while (waited := time.monotonic() - began) < timeout:
            self.watch()
            if self._firmware_hangs() and not was_reset:
                say(f"lab: {self.name}: the firmware hangs, and the machine is reset (once)")
                self.monitor.execute("system_reset")
                was_reset = True
            # Each connection that is given up costs the guest a process. A slow one would do nothing else.
            if self._banner(min(max(2.0, waited / 8), CONNECT_TIMEOUT)) and self._answers(not_boot):
                self._set_clock()
                return
            time.sleep(POLL)
        raise self._no_answer("no ssh", timeout)

    def _firmware_hangs(self) -> bool:
        """Return whether the kernel has restarted the machine, and nothing has come after it for too long."""
        if not self.console.exists():
            return False
        since = max(self.console.stat().st_mtime, self._powered)
        silent = time.time() - since > FIRMWARE_TIMEOUT
        return silent and self.console_text()[self._printed :].rstrip().endswith(RESTART)

    def _set_clock(self) -> None:
        """Linux reads the machine's clock at boot only, and a saved machine's clock stood still."""
        if self._clock_stood_still:
            self.run(f"date -s @{time.time():.3f} > /dev/null")
            self._clock_stood_still = False

    def reboot(self, timeout: float = BOOT_TIMEOUT) -> None:
        """Reboot by the guest's own systemd, and wait until it is up again."""
        before = self.boot_id()
        self.run("systemctl --no-block reboot", timeout=60, check=False)
        self.wait_ssh(timeout, not_boot=before)


def _drain(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line.rstrip("\r\n"))
    lines.put(None)
