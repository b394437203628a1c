"""The cloud flavour has what container runtimes, clusters, systemd and hypervisors ask of a kernel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import config, kconfig
from scripts.console import UserError
from scripts.flavours import CLOUD, FLAVOURS

AUTHORITIES = {
    *("moby", "systemd", "kubernetes", "cilium", "calico", "firewalld", "libvirt", "storage"),
    *("kvm", "ec2", "gce", "azure", "vmware", "hosts"),
}
EACH_LIST = pytest.mark.parametrize("path", config.LISTS, ids=lambda path: path.stem)
LINE = re.compile(r"^CONFIG_\w+=[ym]$")
HAVE = kconfig.parse(config.complete(CLOUD).read_text())
KNOWN = {option for flavour in FLAVOURS.values() for option in kconfig.parse(config.complete(flavour).read_text())}


def test_every_authority_has_its_list() -> None:
    assert {path.stem for path in config.LISTS} == AUTHORITIES


@EACH_LIST
def test_list_names_its_source_first(path: Path) -> None:
    first = path.read_text().splitlines()[0]
    assert re.match(r"# Source: \S.{20,}$", first), f"{path.name}: its first line names no source"


@EACH_LIST
def test_list_has_nothing_but_options_and_comments(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    assert lines
    assert [line for line in lines if not LINE.match(line)] == []
    options = [line.split("=")[0] for line in lines]
    assert sorted(set(options)) == sorted(options), "an option twice"


@EACH_LIST
def test_listed_options_exist(path: Path) -> None:
    assert sorted(kconfig.parse(path.read_text()).keys() - KNOWN) == [], "no configuration has these: a typo?"


@EACH_LIST
def test_cloud_flavour_has_every_listed_option(path: Path) -> None:
    assert config.unmet(kconfig.parse(path.read_text()), HAVE) == []


@EACH_LIST
def test_configuration_without_a_listed_option_does_not_pass(path: Path) -> None:
    needs = kconfig.parse(path.read_text())
    for option in needs:
        assert config.unmet(needs, {**HAVE, option: "n"}) == [option]
        assert config.unmet(needs, {name: value for name, value in HAVE.items() if name != option}) == [option]


def test_module_does_not_meet_what_has_to_be_built_in() -> None:
    assert config.unmet({"CONFIG_A": "y", "CONFIG_B": "m"}, {"CONFIG_A": "m", "CONFIG_B": "y"}) == ["CONFIG_A"]


def test_make_config_stops_at_a_missing_option_and_names_the_list(tmp_path: Path) -> None:
    poorer = tmp_path / "poorer.config"
    text = config.complete(CLOUD).read_text()
    poorer.write_text(text.replace("CONFIG_IP_SET_HASH_NET=m\n", "# CONFIG_IP_SET_HASH_NET is not set\n"))
    with pytest.raises(UserError, match=r"poorer.config lacks .*\nCONFIG_IP_SET_HASH_NET: calico.txt\n"):
        config.check_lists(poorer)
