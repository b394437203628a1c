"""Rollouts on fleets of lab hosts, which fail in the ways real hosts do."""

import pytest

# What these find is told in full, as for an assert in a test.
pytest.register_assert_rewrite("tests.fleet.expect")
