"""Many simulated hosts behind one sshd on loopback: each is a user with a root directory of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from pathlib import Path

from lab import debs, image
from lab.vm import free_port
from scripts.console import UserError, tail
from scripts.flavours import CLOUD
from tests.fleet.scale import programs

HERE = Path(__file__).resolve().parent
STOCK, RELEASE = "6.1.0-56-amd64", "6.1.187-1"
OPT = "opt/simulated"
THP = "sys/kernel/mm/transparent_hugepage"
# The files that the collection reads on a host. It writes to the same directories.
FILES = {
    "uname": STOCK,
    "proc/uptime": "1000.00 1000.00\n",
    "proc/meminfo": "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\nAnonPages: 100000 kB\nAnonHugePages: 50000 kB\n",
    "proc/vmstat": "oom_kill 0\nthp_fault_alloc 1000\nthp_fault_fallback 0\n",
    "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n",
    "proc/sys/kernel/panic": "0\n",
    "proc/sys/kernel/panic_on_oops": "0\n",
    f"{THP}/enabled": "always [madvise] never\n",
    f"{THP}/khugepaged/max_ptes_none": "511\n",
    "etc/os-release": 'ID=simulated\nNAME="Simulated"\nVERSION_ID=1\n',
}
FOLDERS = (
    *("efi/loader/entries", "sys/firmware/efi/efivars", "sys/class/watchdog/watchdog0", "etc/tuned"),
    *("etc/systemd/system", "var/lib", "var/tmp", "root", "tmp", "dev", "sbin", f"{OPT}/bin", f"{OPT}/python"),
    *("usr/bin", "usr/lib", "usr/lib64"),
)
LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"}
PATH = f"/{OPT}/bin:/usr/bin"
SSHD = Path("/usr/sbin/sshd")
START_TIMEOUT = 60.0


def make(root: Path) -> None:
    """Create the root directory of a host that runs its stock kernel."""
    for name in FOLDERS:
        (root / name).mkdir(parents=True)
    for name, target in LINKS.items():
        (root / name).symlink_to(target)
    for name, content in FILES.items():
        path = root / (f"{OPT}/{name}" if name == "uname" else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    boot_id = root / programs.BOOT_ID.relative_to("/")
    boot_id.parent.mkdir(parents=True, exist_ok=True)
    boot_id.write_text(f"{uuid.uuid4()}\n")
    # A host's shell looks up its user's home here.
    (root / "etc" / "passwd").write_text(f"root:x:0:0::/root:/bin/sh\n{root.name}:x:0:0::/root:/bin/sh\n")
    _programs(root)
    _boot(root)


def _programs(root: Path) -> None:
    own = root / OPT
    shutil.copyfile(HERE / "sitecustomize.py", own / "python" / "sitecustomize.py")
    shutil.copyfile(HERE / "programs.py", own / "programs.py")
    (own / "programs.py").chmod(0o755)
    for name in programs.PROGRAMS:
        # Ansible looks for this one in /sbin.
        folder = root / "sbin" if name == "shutdown" else own / "bin"
        (folder / name).symlink_to(f"/{OPT}/programs.py")
    installed = ["simulated-1-1.noarch", "tuned-2.22-1.noarch"]
    known = {"release": RELEASE, "installed": installed, "running": False, "enabled": "disabled"}
    (own / "state.json").write_text(json.dumps(known))


def _boot(root: Path) -> None:
    """Create the files and variables that systemd-boot leaves after it has started the only kernel."""
    for name, value in {"LoaderInfo": "systemd-boot 252", "LoaderEntrySelected": f"lab-{STOCK}.conf"}.items():
        content = b"\7\0\0\0" + f"{value}\0".encode("utf-16-le")
        (root / f"sys/firmware/efi/efivars/{name}-{programs.VENDOR}").write_bytes(content)
    folder = root / "efi" / "lab" / STOCK
    folder.mkdir(parents=True)
    for name in ("linux", "initrd"):
        (folder / name).write_text("x")
    lines = (f"version {STOCK}", "options root=x rw", f"linux /lab/{STOCK}/linux", f"initrd /lab/{STOCK}/initrd")
    (root / "efi" / "loader" / "entries" / f"lab-{STOCK}.conf").write_text("\n".join(lines) + "\n")


def sshd(folder: Path) -> tuple[Path, dict[str, str]]:
    """Return this machine's sshd, or one that is only unpacked, and the environment it needs."""
    if SSHD.exists():
        return SSHD, {}
    unpacked = folder / "sshd"
    for name in ("openssh-server", "libwrap0"):
        subprocess.run(["dpkg-deb", "-x", str(debs.package(name)), str(unpacked)], check=True)
    libraries = sorted({str(path.parent) for path in unpacked.rglob("libwrap.so.*")})
    return (unpacked / SSHD.relative_to("/")).resolve(), {"LD_LIBRARY_PATH": ":".join(libraries)}


class Hosts:
    """Simulated hosts, up for as long as the context lasts. Only root may have write access to the folder."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder.resolve()
        self.names = [f"h{number:03d}" for number in range(1, count + 1)]
        self.port = free_port()
        self._sshd: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Hosts:
        if os.geteuid() != 0:
            raise UserError("simulated hosts need mount namespaces", "run this as root")
        # sshd's namespace mounts this machine's own files below the folder.
        if str(self.folder) in Path("/proc/self/mountinfo").read_text():
            raise UserError(f"something is mounted below {self.folder}", "unmount it: its content would be deleted")
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in self.names:
            make(self.folder / "hosts" / name)
        program, environment = sshd(self.folder)
        config = self._configure()
        words = [str(HERE / "serve.sh"), str(self.folder / "hosts"), str(self.folder / "passwd"), str(program)]
        with (self.folder / "sshd.log").open("wb") as log:
            self._sshd = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", *words, str(config)],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        """End sshd and its connections. The mounts of the roots disappear with its namespace."""
        if self._sshd is not None:
            os.killpg(self._sshd.pid, signal.SIGTERM)
            self._sshd.wait()
            self._sshd = None

    def _configure(self) -> Path:
        key = self.folder / "host_key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        users = [f"{name}:x:0:0::/root:/bin/sh" for name in self.names]
        lines = [*Path("/etc/passwd").read_text().splitlines(), "sshd:x:65533:65534::/run/sshd:/bin/false", *users]
        (self.folder / "passwd").write_text("\n".join(lines) + "\n")
        settings = {
            "ListenAddress": f"127.0.0.1:{self.port}",
            "HostKey": key,
            "AuthorizedKeysFile": image.ssh_key().with_suffix(".pub").resolve(),
            "ChrootDirectory": f"{self.folder}/hosts/%u",
            "SetEnv": f"PATH={PATH} PYTHONPATH=/{OPT}/python",
            "Subsystem": "sftp internal-sftp",
            "PermitRootLogin": "prohibit-password",
            "PasswordAuthentication": "no",
            "StrictModes": "no",
            "UseDNS": "no",
            "PidFile": "none",
            "LogLevel": "ERROR",
            # Ansible may connect to all hosts at once, and to sshd they are one.
            "MaxStartups": 1000,
        }
        config = self.folder / "sshd_config"
        config.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        return config

    def _wait(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        assert self._sshd is not None
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=2):
                    return
            except OSError:
                if self._sshd.poll() is not None or time.monotonic() > deadline:
                    output = " ".join(tail(self.folder / "sshd.log", 2))
                    raise UserError(f"sshd for the simulated hosts does not listen: {output}", "read its log") from None
                time.sleep(0.2)

    def inventory(self) -> dict[str, object]:
        """Return the hosts as an inventory that ignores this machine's own ssh settings."""
        options = "-F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o IdentitiesOnly=yes"
        variables = {
            "ansible_host": "127.0.0.1",
            "ansible_port": self.port,
            "ansible_ssh_private_key_file": str(image.ssh_key()),
            "ansible_ssh_common_args": f"{options} -o BatchMode=yes -o LogLevel=ERROR",
        }
        hosts = {name: {"ansible_user": name} for name in self.names}
        return {"fleet": {"hosts": hosts, "vars": variables}}

    def rolled_out(self) -> list[str]:
        """Return the hosts that run the new kernel, read from their files and not from Ansible's output."""
        unames = ((name, self.folder / "hosts" / name / OPT / "uname") for name in self.names)
        return [name for name, uname in unames if uname.read_text() == f"{RELEASE}.x86_64{CLOUD.suffix}"]
