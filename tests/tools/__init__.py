"""The tools for operators, on hosts with each kernel they can meet."""

import pytest

# A failed assert in there shows its values, as in a test.
pytest.register_assert_rewrite("tests.tools.on_host")
