"""Which tests may be skipped depends on the flavour: not where its kernel has the option that the test needs."""

from __future__ import annotations

from scripts import kconfig
from scripts.config import complete
from scripts.flavours import CLOUD, DEBUG, FLAVOURS
from tests.kernel.gate import FILL, NEEDS, REQUIRED, required
from tools.thp_validate.outcomes import parse_required


def test_a_kernel_with_the_option_may_not_skip() -> None:
    on_debug, on_cloud = ({want.name: want.may_skip for want in required(flavour)} for flavour in (DEBUG, CLOUD))
    assert on_debug["zero_remap.longterm_pin"] == on_debug["swap.few_flushes"] == ""
    assert on_cloud["zero_remap.longterm_pin"] == "needs CONFIG_GUP_TEST"
    assert on_cloud["zero_remap.cipher_output_kept"] == ""
    assert on_debug["migration.straddling"] == "needs two NUMA nodes"


def test_only_a_debug_kernel_may_leave_out_what_fills_memory() -> None:
    filled = {want.name for want in parse_required(REQUIRED.read_text(), "") if FILL in want.may_skip}
    assert filled
    for flavour in FLAVOURS.values():
        skipped = {want.name for want in required(flavour) if FILL in want.may_skip}
        assert skipped == (filled if flavour.debug else set())


def test_every_test_runs_on_some_flavour() -> None:
    needed = {match[1] for want in parse_required(REQUIRED.read_text(), "") if (match := NEEDS.search(want.may_skip))}
    kernels = [kconfig.parse(complete(flavour).read_text()) for flavour in FLAVOURS.values()]
    assert needed
    assert {option for option in needed if not any(have.get(option) in ("y", "m") for have in kernels)} == set()
