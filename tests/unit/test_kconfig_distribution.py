"""What a distribution's kernel has, ours has, or a fragment says why not; and what protects there, protects here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import config, kconfig, lock
from scripts.console import UserError
from scripts.flavours import CLOUD, SERVER, Flavour
from tests.unit import kconfig_tree

FLAVOURS = pytest.mark.parametrize("flavour", config.COUNTERPARTS, ids=lambda flavour: flavour.name)
PAIRS = pytest.mark.parametrize(
    ("flavour", "theirs"),
    [(flavour, config.DISTRIBUTION / name) for flavour, names in config.COUNTERPARTS.items() for name in names],
    ids=lambda value: value.name,
)
OURS = {flavour: kconfig.parse(config.complete(flavour).read_text()) for flavour in config.COUNTERPARTS}
THEIRS = {
    flavour: kconfig.parse((config.DISTRIBUTION / names[0]).read_text())
    for flavour, names in config.COUNTERPARTS.items()
}
PATCHED = config.DISTRIBUTION / "patched.txt"

# Options that protect the kernel, or what runs on it, by the beginning of their names.
PROTECTS = re.compile(
    r"CONFIG_(?:AMD_MEM|ARCH_MMAP|AUDIT|BPF_(?!KPROBE)|BUG_ON|COMPAT_(?:BRK|VDSO)|CRYPTO_FIPS|DEBUG_(?:LIST|WX)|"
    r"DEFAULT_(?:MMAP|SECURITY)|DEVMEM|DEVPORT|DM_VERITY|ENCRYPTED_KEYS|EVM|FANOTIFY_ACCESS|FORTIFY|FS_VERITY|HARDENED|"
    r"IMA|INIT_(?:ON|STACK)|INTEGRITY|INTEL_(?:IOMMU_DEFAULT|TXT)|IO_STRICT|KEXEC|KEYS|LDISC|"
    r"LEGACY_(?:TIOCSTI|VSYSCALL)|LOCK_?DOWN|LSM|MITIGATION|MODIFY_LDT|MODULE_(?:FORCE|SIG)|PAGE_(?:POISONING|TABLE)|PERSISTENT_KEY|RANDOMIZE|RANDOM_KMALLOC|"
    r"RESET_ATTACK|RETHUNK|RETPOLINE|SCHED_STACK|SECCOMP|SECONDARY_|SECURITY|SHUFFLE|SIGNED_PE|SLAB_|SLS|STACKPROTECTOR|"
    r"STATIC_USERMODE|STRICT|SYN_COOKIES|SYSTEM_(?:BLACKLIST|REVOCATION|TRUSTED)|TCG_T|TRUSTED_KEYS|UNPRIV|USELIB|"
    r"USER_NS|VMAP_STACK|X86_(?:INTEL_TSX|INTEL_MEMORY|IOPL|KERNEL_IBT|SGX|SMAP|SMEP|UMIP|VSYSCALL|X32))"
)
# Where we differ, and why that protects as well.
DIFFERS = {
    "CONFIG_BPF_JIT_ALWAYS_ON": "more: without an interpreter, there is none to misuse",
    "CONFIG_DEFAULT_SECURITY_APPARMOR": "CONFIG_LSM decides",
    "CONFIG_DEFAULT_SECURITY_SELINUX": "CONFIG_LSM decides",
    "CONFIG_INTEGRITY_TRUSTED_KEYRING": "more: IMA accepts certificates that a trusted key has signed",
    "CONFIG_MODULE_FORCE_LOAD": "more: a module for another kernel is refused",
    "CONFIG_MODULE_FORCE_UNLOAD": "more: a module that is in use stays",
    "CONFIG_MODULE_SIG_ALL": "the distribution signs after its build, we within it",
    "CONFIG_MODULE_SIG_KEY": "the distribution signs after its build, we within it",
    "CONFIG_SECURITY_INFINIBAND": "server: more, SELinux can say who uses RDMA; cloud: there is no RDMA",
    "CONFIG_SECURITY_SELINUX_BOOTPARAM": "`selinux=0` hands over to AppArmor, as RHEL and Fedora allow",
    "CONFIG_USELIB": "more: a system call of the last century less",
    "CONFIG_X86_X32_ABI": "more: the distribution has it disabled by a patch",
    "CONFIG_X86_X32_DISABLED": "more: without the ABI, there is nothing to disable",
}
CLOUD_DIFFERS = {
    "CONFIG_INTEL_TXT": "a measured start of real machines",
    "CONFIG_MITIGATION_VMSCAPE": "protects hosts of virtual machines, which this flavour is not",
    "CONFIG_X86_SGX": "enclaves belong to the host's processor",
    "CONFIG_X86_SGX_KVM": "enclaves belong to the host's processor",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kconfig_tree.copy(tmp_path_factory.mktemp("tree"))


@PAIRS
def test_what_the_distribution_has_and_we_do_not_has_a_reason(tree: Path, flavour: Flavour, theirs: Path) -> None:
    assert config.unexplained(tree, flavour, OURS[flavour], theirs) == []


@PAIRS
def test_what_is_lost_without_a_reason_is_named(tree: Path, flavour: Flavour, theirs: Path) -> None:
    lost = ["CONFIG_DEBUG_INFO_BTF", "CONFIG_NF_LOG_SYSLOG", "CONFIG_SCSI_ISCSI_ATTRS"]
    assert config.unexplained(tree, flavour, {**OURS[flavour], **dict.fromkeys(lost, "n")}, theirs) == lost


def test_make_config_stops_at_it(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poorer = tmp_path / "poorer.config"
    poorer.write_text(config.complete(CLOUD).read_text().replace("CONFIG_NFT_LOG=m\n", ""))
    monkeypatch.setattr(config, "complete", lambda flavour: poorer)
    with pytest.raises(UserError, match=r"poorer.config lacks what .*/cloud.txt has:\nCONFIG_NFT_LOG\n"):
        config.check_distribution(tree, CLOUD, config.DISTRIBUTION / "cloud.txt")


def test_what_takes_a_patch_is_listed_with_the_reason(tree: Path) -> None:
    """And nothing else: an option that this kernel grants takes none. Debian's patched tree grants all."""
    lost: set[str] = set()
    for flavour, names in config.COUNTERPARTS.items():
        kconfig.merge(tree, [config.DISTRIBUTION / names[0]], [])
        granted = config.on(kconfig.parse((tree / ".config").read_text()))
        lost |= config.on(THEIRS[flavour]) - granted
    why = kconfig.reasons(PATCHED.read_text())
    has_patches = lock.used().kind == lock.LINUX_SOURCE
    assert lost == (set() if has_patches else why.keys())
    assert [option for option, reason in why.items() if not reason.endswith(".")] == []


@FLAVOURS
def test_no_protection_is_weaker(flavour: Flavour) -> None:
    ours, theirs = OURS[flavour], THEIRS[flavour]
    allowed = {*DIFFERS, *(CLOUD_DIFFERS if flavour == CLOUD else ()), "CONFIG_LSM"}
    named = {option for option in ours.keys() | theirs.keys() if PROTECTS.match(option)} - allowed
    values = {option: (theirs.get(option, "n"), ours.get(option, "n")) for option in sorted(named)}
    # A protection that is loaded protects as well as one that is built in, and an empty string says nothing.
    same = [{"y", "m"}, set(kconfig.ABSENT)]
    differ = {option: pair for option, pair in values.items() if pair[0] != pair[1] and set(pair) not in same}
    assert differ == {}


def test_every_difference_is_one() -> None:
    def differs(option: str, flavour: Flavour) -> bool:
        return OURS[flavour].get(option, "n") != THEIRS[flavour].get(option, "n")

    assert [option for option in DIFFERS if not any(differs(option, flavour) for flavour in OURS)] == []
    assert [option for option in CLOUD_DIFFERS if not differs(option, CLOUD)] == []
    assert [option for option in (*DIFFERS, *CLOUD_DIFFERS) if not PROTECTS.match(option)] == []


@FLAVOURS
def test_every_policy_of_the_distribution_that_is_built_is_in_the_order(flavour: Flavour) -> None:
    def order(configuration: dict[str, str]) -> list[str]:
        return configuration["CONFIG_LSM"].strip('"').split(",")

    names = {"loadpin": "CONFIG_SECURITY_LOADPIN", "safesetid": "CONFIG_SECURITY_SAFESETID"}
    names["smack"] = "CONFIG_SECURITY_SMACK"
    lacking = set(order(THEIRS[flavour])) - set(order(OURS[flavour]))
    assert {name for name in lacking if OURS[flavour].get(names.get(name, ""), "y") != "n"} == set()


@FLAVOURS
def test_either_policy_can_be_active_and_bpf_comes_after_them(flavour: Flavour) -> None:
    """The kernel takes the first of SELinux and AppArmor in its list that is not turned off on the command line."""
    order = OURS[flavour]["CONFIG_LSM"].strip('"').split(",")
    assert order.index("selinux") < order.index("apparmor") < order.index("bpf") == len(order) - 1


# What a host of RHEL or Fedora does on its first day, and what it takes.
FIRST_DAY = {
    "hotplug": "HOTPLUG_PCI_ACPI HOTPLUG_PCI_PCIE ACPI_HOTPLUG_MEMORY ACPI_HOTPLUG_CPU",
    "compressed firmware": "FW_LOADER_COMPRESS_XZ FW_LOADER_COMPRESS_ZSTD",
    "VMware": "VMXNET3 VMWARE_PVSCSI",
    "disks of a SAN": "SCSI_QLA_FC SCSI_LPFC SCSI_DH_RDAC SCSI_DH_EMC SCSI_AACRAID SCSI_MPI3MR VMD",
    "RDMA": "INFINIBAND NVME_RDMA NVME_FC MLX4_INFINIBAND MLX5_INFINIBAND",
    "network cards": "BE2NET QEDE ENIC CHELSIO_T4 MLX4_EN SFC BNX2",
    "BTF": "DEBUG_INFO_BTF DEBUG_INFO_BTF_MODULES",
    "Kerberos": "RPCSEC_GSS_KRB5 CIFS_UPCALL CIFS_DFS_UPCALL",
    "memory encryption and enclaves": "AMD_MEM_ENCRYPT INTEL_TDX_GUEST X86_SGX SEV_GUEST",
    "memory that is a device": "ZONE_DEVICE DEV_DAX FS_DAX",
    "the rest": "PCI_IOV POWERCAP LIVEPATCH NET_TEAM MPTCP IP_SCTP CEPH_FS TARGET_CORE INIT_ON_ALLOC_DEFAULT_ON SLS",
}


@pytest.mark.parametrize("options", FIRST_DAY.values(), ids=FIRST_DAY)
def test_server_has_what_hosts_need_on_the_first_day(options: str) -> None:
    assert [option for option in options.split() if OURS[SERVER].get(f"CONFIG_{option}") not in ("y", "m")] == []


def test_server_counts_the_processors_of_the_largest_machines() -> None:
    assert int(OURS[SERVER]["CONFIG_NR_CPUS"]) >= 8192


# The server flavour has another driver for Hyper-V's screen.
@pytest.mark.parametrize("path", config.LISTS, ids=lambda path: path.stem)
def test_server_has_what_others_ask_for(path: Path) -> None:
    listed = kconfig.parse(path.read_text()).keys() - {"CONFIG_FB_HYPERV"}
    assert sorted(listed - config.on(OURS[SERVER])) == []
