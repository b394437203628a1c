"""Debian's tarball lacks files of drivers that Kconfig still offers: no configuration of ours turns one on."""

from __future__ import annotations

import pytest

from scripts import config, kconfig, lock, series
from scripts.flavours import FLAVOURS, Flavour

# What cannot be compiled without the files that Debian's guidelines exclude.
LEFT_OUT = {
    "CONFIG_COPS": "drivers/net/appletalk/cops.c",
    "CONFIG_DVB_USB_AF9005": "drivers/media/usb/dvb-usb/af9005-script.h",
    "CONFIG_FB_NVIDIA": "drivers/video/fbdev/nvidia",
    "CONFIG_FB_RIVA": "drivers/video/fbdev/riva",
    "CONFIG_VIDEO_VS6624": "drivers/media/i2c/vs6624.c",
}


@pytest.mark.parametrize("flavour", FLAVOURS.values(), ids=lambda flavour: flavour.name)
def test_nothing_without_its_source_is_turned_on(flavour: Flavour) -> None:
    answers = kconfig.parse(config.complete(flavour).read_text())
    assert answers, "the configuration is empty"
    assert {name: answers[name] for name in LEFT_OUT if answers.get(name, "n") != "n"} == {}


def test_list_is_what_the_tarball_lacks() -> None:
    """All of it is gone from Debian's tarball, and Kconfig has the options nevertheless."""
    if not lock.USED.exists() or lock.used().kind != lock.DEBIAN:
        pytest.skip("the tree is not made from Debian's source package")
    _, tree = series.place(lock.used())
    there = tree.git("ls-tree", "-r", "-d", "--name-only", "base").splitlines()
    there += tree.git("ls-tree", "-r", "--name-only", "base").splitlines()
    assert set(LEFT_OUT.values()).isdisjoint(there)
    assert set(LEFT_OUT) - kconfig.known_options(tree.folder) == set()
