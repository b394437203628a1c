"""What is noted of hosts that fail: whatever ssh said, and whether or not it can be written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.static.plays import GONE, Variables, play, there

# A way to hosts that does not speak UTF-8 ends here.
GATEWAY = r"""#!/bin/sh
printf 'Acc\350s refus\351\n' >&2
exit 1
"""


def behind_a_gateway(folder: Path) -> Variables:
    """Return the variables of a host that is gone; ssh passes on what the gateway says, without a master connection."""
    program = folder / "gateway"
    program.write_text(GATEWAY)
    program.chmod(0o755)
    return {
        **GONE,
        "ansible_ssh_args": "-o ControlMaster=no",
        "ansible_ssh_common_args": f"-o ProxyCommand={program}",
    }


def test_a_byte_that_is_no_text_keeps_nobody_from_being_noted(ansible: Mapping[str, str], tmp_path: Path) -> None:
    hosts = {"h1": behind_a_gateway(tmp_path), "h2": there(tmp_path)}
    played = play(ansible, tmp_path, hosts, "rollout", "-e", '{"fleet_serial": [2]}')
    assert played.results() == {"h1": "unreachable", "h2": "refused"}
    assert "Acc?s refus?" in played.failed("h1")["why"]
    assert "Acc?s refus?" in (played.reports / "latest" / "report.html").read_text()
