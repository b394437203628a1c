"""The tests of the tools run on the host they share with those of the tuned profiles, see tests/conftest.py."""

from __future__ import annotations

import pytest

from lab.host import Host
from lab.vm import Vm


@pytest.fixture
def vm(host: Host) -> Vm:
    return host.vm
