"""What systemd-boot and bootctl do with `+thp` (part of the kernel's name) and `+3` (tries left) in one file name.

The entries boot the stock kernel; only their names and command lines differ from its own entry. The stock kernel's
entry is the default throughout, so that nothing but the request can lead to another one.
"""

from __future__ import annotations

import pytest

from lab.vm import DeadHost, Vm

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("test_boot_counting")]

VERSION = "9.9.9-1.x86_64+thp"
ENTRIES = "/efi/loader/entries"
# With the firmware and the kernel's own start; a panic has to be noticed long before ssh is given up on.
PANIC_TIMEOUT = 150.0


def entries(host: Vm) -> list[str]:
    return host.run(f"ls {ENTRIES}").text.split()


def make_entry(host: Vm, tries: str, options: str = "") -> str:
    """Make an entry of our version with these tries, the only one beside the stock kernel's."""
    host.run(f"rm -f {ENTRIES}/*+thp*")
    (stock,) = entries(host)
    name = f"lab-{VERSION}{tries}.conf"
    edit = f"s|^version .*|version {VERSION}|; s|^options|options lab.entry {options}|"
    host.run(f"cd {ENTRIES} && sed '{edit}' {stock} > {name} && bootctl set-default {stock}")
    return name


def started_by_our_entry(host: Vm) -> bool:
    return "lab.entry" in host.run("cat /proc/cmdline").text.split()


def test_bootctl_tells_the_variant_from_the_tries(host: Vm) -> None:
    make_entry(host, "+3")
    listed = host.run("bootctl list").text
    assert f"id: lab-{VERSION}.conf" in listed
    assert f"source: {ENTRIES}/lab-{VERSION}+3.conf" in listed
    assert "tries: 3 left" in listed


def test_removing_the_kernel_without_the_suffix_takes_our_entry_along(host: Vm) -> None:
    """A trap of kernel-install 252: it takes `+thp.conf` for tries of the shorter version."""
    make_entry(host, "")
    host.run(f"kernel-install remove {VERSION.replace('+thp', '')}")
    assert not any(VERSION in name for name in entries(host))


def test_a_kernel_that_panics_is_noticed_and_leads_back_to_the_default(host: Vm) -> None:
    host.run(f"bootctl set-oneshot {make_entry(host, '+3', 'rdinit=/nonexistent root=')}")
    with pytest.raises(DeadHost, match=r"the kernel died: .*Kernel panic"):
        host.reboot(PANIC_TIMEOUT)
    host.forgive()
    host.wait_ssh()
    assert not started_by_our_entry(host)
    assert f"lab-{VERSION}+2-1.conf" in entries(host)


def test_the_id_that_bootctl_lists_does_not_reach_an_entry_with_tries(host: Vm) -> None:
    """This is why the gate selects an entry by its file name."""
    make_entry(host, "+3")
    host.run(f"bootctl set-oneshot lab-{VERSION}.conf")
    host.reboot()
    assert not started_by_our_entry(host)


def test_the_file_name_does_and_a_good_boot_takes_the_tries_off(host: Vm) -> None:
    name = make_entry(host, "+3")
    host.run(f"bootctl set-oneshot {name}")
    host.reboot()
    assert started_by_our_entry(host)
    assert host.loader_variable("LoaderEntrySelected") == name
    host.run("timeout 60 sh -c 'until systemctl -q is-active systemd-bless-boot; do sleep 1; done'")
    assert f"lab-{VERSION}.conf" in entries(host)
