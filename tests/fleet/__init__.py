"""Rollouts on fleets of lab hosts, which fail in the ways real hosts do."""

import pytest

# Show the values in failed asserts of this module, as in a test.
pytest.register_assert_rewrite("tests.fleet.expect")
