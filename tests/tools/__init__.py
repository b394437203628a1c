"""The tools for operators, on hosts with each kernel they can meet."""

import pytest

# What these find is told in full, as for an assert in a test.
pytest.register_assert_rewrite("tests.tools.on_host")
