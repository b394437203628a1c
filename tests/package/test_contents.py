"""What the packages hold, provide and require (`make package`, with FLAVOUR=server or DEBUG=1 for other flavours)."""

from __future__ import annotations

import hashlib
import hmac
import lzma
import re
import subprocess
from pathlib import Path

import pytest

from scripts import config, kconfig, lock, rpms, secure_boot, series
from scripts.console import ROOT
from scripts.flavours import CLOUD, FLAVOURS, SERVER
from tests.package.conftest import (
    CORE,
    DEBUGINFO,
    DEVEL,
    FLAVOUR,
    KERNEL,
    META,
    MODULES,
    RELEASE,
    REST,
    UNAME,
    VERSION,
    Packages,
    run,
)

OF_KERNEL = (*KERNEL, "kernel-thp-selftests")
OTHERS = ("tuned-profiles-thp", "tuned-profiles-thp-recommend", "thp-tools", "kernel-thp-release")
NEVRA = f"{VERSION}-{RELEASE}"


def test_exactly_the_promised_packages(packages: Packages) -> None:
    assert set(packages.paths) == {*OF_KERNEL, *OTHERS}
    for name in OF_KERNEL:
        assert packages.paths[name].name == f"{name}-{NEVRA}.x86_64.rpm"


def test_meta_package_has_no_file_and_requires_both_halves(packages: Packages) -> None:
    assert packages.query(META, "--list").strip() in ("", "(contains no files)")
    needed = packages.lines(META, "--requires")
    assert {f"{CORE} = {NEVRA}", f"{REST} = {NEVRA}"} <= needed


def test_core_holds_what_boots(packages: Packages) -> None:
    files = packages.lines(CORE, "--list")
    for name in ("vmlinuz", "System.map", "config", "symvers.xz", "modules.builtin", "modules.order", "modules.dep"):
        assert f"{MODULES}/{name}" in files
    assert any("/fs/xfs/" in name for name in files)
    disk = {CLOUD: "dm-thin-pool", SERVER: "/megaraid/"}.get(FLAVOUR, "dm-thin-pool")
    assert any(disk in name for name in files)


def test_names_that_the_host_writes_belong_to_the_kernel(packages: Packages) -> None:
    """What kernel-install puts into /boot, and depmod beside the modules, whatever depmod the build host has."""
    form = "[%{FILENAMES} %{FILEFLAGS:fflags} %{FILESIZES} %{FILEMODES:octal}\\n]"
    fields = [line.split() for line in packages.query(CORE, "--queryformat", form).splitlines()]
    ghosts = {
        name: (int(size), mode)
        for name, flags, size, mode in (line for line in fields if len(line) == 4)
        if "g" in flags
    }
    assert {name for name in ghosts if name.startswith("/boot/")} == {
        *(f"/boot/{name}-{UNAME}" for name in ("vmlinuz", "System.map", "config")),
        f"/boot/.vmlinuz-{UNAME}.hmac",
        f"/boot/initramfs-{UNAME}.img",
    }
    # So much has to be free in /boot before anything is done.
    assert ghosts[f"/boot/initramfs-{UNAME}.img"][0] >= 32 << 20
    assert ghosts[f"/boot/vmlinuz-{UNAME}"][0] > 1 << 20
    assert {f"{MODULES}/modules.{name}" for name in ("dep", "dep.bin", "weakdep")} <= ghosts.keys()
    # Without a file in the build, rpm takes the name for a file that nobody may read.
    assert [name for name, (_, mode) in ghosts.items() if mode == "100000"] == []


def test_fips_checksum_is_that_of_the_kernel(unpacked: Path) -> None:
    folder = unpacked / MODULES[1:]
    key = b"FIPS-FTW-RHT2009"
    made = hmac.new(key, (folder / "vmlinuz").read_bytes(), "sha512").hexdigest()
    assert (folder / ".vmlinuz.hmac").read_text() == f"{made}  vmlinuz-{UNAME}\n"


def test_kernel_is_signed_with_the_published_certificate(unpacked: Path, tmp_path: Path) -> None:
    der, pem = FLAVOUR.repo / secure_boot.CERTIFICATE_NAME, tmp_path / "cert.pem"
    subprocess.run(["openssl", "x509", "-inform", "DER", "-in", str(der), "-out", str(pem)], check=True)
    done = run("sbverify", "--cert", str(pem), str(unpacked / MODULES[1:] / "vmlinuz"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(FLAVOUR.debug, reason="the debug flavour has no debug information")
def test_debug_information_is_of_this_kernel_and_of_every_module(packages: Packages, tmp_path: Path) -> None:
    modules = {name for half in (CORE, REST) for name in packages.lines(half, "--list") if ".ko" in name}
    debug = {name for name in packages.lines(DEBUGINFO, "--list") if name.endswith(".debug")}
    wanted = {re.sub(r"\.ko(\.\w+)?$", ".ko.debug", name) for name in modules}
    assert debug == {f"/usr/lib/debug{name}" for name in wanted}
    rpms.extract(packages.paths[DEBUGINFO], tmp_path, "*/vmlinux")
    vmlinux = tmp_path / "usr" / "lib" / "debug" / MODULES[1:] / "vmlinux"
    assert " .debug_info " in run("readelf", "--sections", "--wide", str(vmlinux)).stdout
    assert f"Linux version {UNAME} ".encode() in vmlinux.read_bytes()


@pytest.mark.skipif(FLAVOUR.debug, reason="the debug flavour has no -devel")
def test_devel_requires_what_its_programs_are_linked_with_and_no_interpreter(packages: Packages) -> None:
    needed = packages.lines(DEVEL, "--requires")
    assert any(line.startswith("libcrypto.so.") for line in needed)
    assert any(line.startswith("libelf.so.") for line in needed)
    assert not [line for line in needed if line.startswith(("/", "perl"))]


def test_firmware_comes_with_the_kernel_of_physical_servers_only(packages: Packages) -> None:
    assert ("linux-firmware" in packages.lines(CORE, "--recommends")) == (FLAVOUR == SERVER)


def test_every_module_is_in_one_package_only(packages: Packages) -> None:
    halves = [packages.lines(name, "--list") for name in (CORE, REST)]
    core, others = ({name for name in half if ".ko" in name} for half in halves)
    assert core
    assert others
    assert not core & others


def test_core_needs_no_module_of_the_other_half(packages: Packages, unpacked: Path) -> None:
    core = {name.removeprefix(f"{MODULES}/") for name in packages.lines(CORE, "--list") if ".ko" in name}
    assert run("depmod", "-b", str(unpacked), UNAME).returncode == 0
    for line in (unpacked / MODULES[1:] / "modules.dep").read_text().splitlines():
        module, _, needed = line.partition(":")
        if module in core:
            assert set(needed.split()) <= core, module


def test_no_module_has_an_unresolved_symbol(unpacked: Path) -> None:
    done = run("depmod", "-b", str(unpacked), "-e", "-F", str(unpacked / MODULES[1:] / "System.map"), "-n", UNAME)
    assert done.returncode == 0
    assert "needs unknown symbol" not in done.stderr


@pytest.mark.parametrize("name", KERNEL)
def test_releases_install_side_by_side(packages: Packages, name: str) -> None:
    provided = packages.lines(name, "--provides")
    assert any(line.startswith("installonlypkg(kernel") for line in provided)
    assert any(line.endswith(f"uname-r = {UNAME}") for line in provided)
    files = packages.lines(name, "--list") - {"(contains no files)"}
    assert all(UNAME in file or re.fullmatch("/usr/share/licenses/[^/]+", file) for file in files)


@pytest.mark.parametrize("name", OF_KERNEL)
def test_no_package_passes_for_another_kernel(packages: Packages, name: str) -> None:
    """Neither for the distribution's kernel nor for another flavour."""
    provided = {line.split()[0] for line in packages.lines(name, "--provides")}
    assert not provided & {"kernel", "kernel-core", "kernel-modules", "kernel-uname-r", "kernel-core-uname-r"}
    for other in set(FLAVOURS.values()) - {FLAVOUR}:
        names = {f"{other.package}{part}" for part in ("", "-core", "-modules", "-devel")}
        assert not provided & (names | {f"{name}-uname-r" for name in names})


@pytest.mark.skipif(FLAVOUR.debug, reason="the debug flavour has no BTF")
def test_kernel_and_modules_have_btf(unpacked: Path) -> None:
    have = kconfig.parse((unpacked / MODULES[1:] / "config").read_text())
    assert have["CONFIG_DEBUG_INFO_BTF"] == "y"
    module = next((unpacked / MODULES[1:]).rglob("zram.ko.zst"))
    plain = run("zstd", "-dcq", str(module), "-o", str(unpacked / "zram.ko"))
    assert plain.returncode == 0, plain.stderr
    sections = run("readelf", "--sections", "--wide", str(unpacked / "zram.ko")).stdout
    assert " .BTF " in sections
    assert " .debug_info " not in sections


def test_scriptlets_use_kernel_install(packages: Packages) -> None:
    core = packages.query(CORE, "--scripts")
    posttrans, preun = (
        re.search(rf"^{part} scriptlet.*?:\n(.*?)(?=^\w+ scriptlet|\Z)", core, re.MULTILINE | re.DOTALL)
        for part in ("posttrans", "preuninstall")
    )
    assert posttrans
    assert preun
    assert f"kernel-install add {UNAME} {MODULES}/vmlinuz" in posttrans[1]
    assert f"kernel-install remove {UNAME}" in preun[1]


@pytest.mark.parametrize("name", KERNEL)
def test_scriptlets_are_valid_shell(packages: Packages, name: str) -> None:
    for tag in ("POSTIN", "PREUN", "POSTUN", "POSTTRANS"):
        script = packages.query(name, "--queryformat", f"%|{tag}?{{%{{{tag}}}}}:{{}}|")
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)


def test_configuration_is_what_the_fragments_ask_for(unpacked: Path) -> None:
    have = kconfig.parse((unpacked / MODULES[1:] / "config").read_text())
    for path in config.fragments(FLAVOUR):
        for option, value in kconfig.parse(path.read_text()).items():
            found = have.get(option, "n")
            assert found == value or {found, value} <= set(kconfig.ABSENT), f"{path.name}: {option}"


def test_configuration_is_the_complete_one(unpacked: Path) -> None:
    """A compiler's wrapper can make Kconfig answer otherwise during the build than when the configuration was made."""
    have = kconfig.parse((unpacked / MODULES[1:] / "config").read_text())
    want = kconfig.parse(config.complete(FLAVOUR).read_text())
    # Answers for trees that ask more than this one end the file.
    unasked = kconfig.parse(config.OTHER_TREES.read_text()).keys() - have.keys()
    want = {option: value for option, value in want.items() if option not in unasked}
    other = {option for option in have.keys() | want.keys() if have.get(option, "n") != want.get(option, "n")}
    assert not {option for option in other if not option.endswith(("_VERSION", "_VERSION_TEXT"))}


def test_series_names_the_patches_in_their_order(unpacked: Path) -> None:
    listed = [line.split("  ") for line in (unpacked / MODULES[1:] / "series").read_text().splitlines()]
    patches = series.Series(ROOT / "patches" / lock.used().series).patches()
    assert listed == [[hashlib.sha256(path.read_bytes()).hexdigest(), path.name] for path in patches]


def test_modules_are_signed_and_belong_to_this_kernel(unpacked: Path) -> None:
    module = next((unpacked / MODULES[1:]).rglob("zram.ko*"))
    output = run("modinfo", "-b", str(unpacked), "-k", UNAME, str(module)).stdout
    assert f"vermagic:       {UNAME} " in output
    assert "sig_key:" in output
    assert "sig_hashalgo:   sha256" in output


@pytest.mark.skipif(FLAVOUR != SERVER, reason="only the server flavour has symbol versions")
def test_symbol_versions_are_complete(unpacked: Path) -> None:
    versions = lzma.decompress((unpacked / MODULES[1:] / "symvers.xz").read_bytes()).decode()
    assert re.search(r"^0x[0-9a-f]{8}\tempty_zero_page\tvmlinux", versions, re.MULTILINE)


def test_image_names_this_release(unpacked: Path) -> None:
    assert UNAME in run("file", "--brief", str(unpacked / MODULES[1:] / "vmlinuz")).stdout


def test_nothing_names_the_build_directory(unpacked: Path) -> None:
    found = run("grep", "-rlF", str(ROOT), str(unpacked)).stdout
    assert found == ""


@pytest.mark.skipif(FLAVOUR.debug, reason="no modules are built for the debug kernel")
def test_devel_builds_a_module(unpacked: Path, tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("obj-m := toy.o\n")
    (tmp_path / "toy.c").write_text(
        "#include <linux/module.h>\n#include <linux/mm.h>\n"
        'static int __init toy(void) { return 0; }\nmodule_init(toy);\nMODULE_LICENSE("GPL");\n'
    )
    devel = unpacked / "usr" / "src" / "kernels" / UNAME
    done = run("make", "-C", str(devel), f"M={tmp_path}", "modules")
    assert done.returncode == 0, done.stderr
    assert f"vermagic={UNAME} ".encode() in (tmp_path / "toy.ko").read_bytes()


def test_selftests_are_where_the_gate_looks(packages: Packages) -> None:
    files = packages.lines("kernel-thp-selftests", "--list")
    for name in ("run_kselftest.sh", "kselftest-list.txt", "thp/required.txt", "thp/settings"):
        assert f"/usr/libexec/kselftests/{name}" in files
    programs = re.findall(r"TEST_GEN_PROGS [:+]= (\w+)", (ROOT / "tests" / "selftests" / "Makefile").read_text())
    assert programs
    assert {f"/usr/libexec/kselftests/thp/{name}" for name in programs} <= files
