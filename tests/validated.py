"""The schema of what `thp-validate --json` prints, closed: for the tests, a field that it does not have is an error."""

from __future__ import annotations

from typing import Any

from tools.thp_validate.document import json_schema


def closed(part: Any) -> Any:  # noqa: ANN401
    if isinstance(part, list):
        return [closed(each) for each in part]
    if not isinstance(part, dict):
        return part
    made = {name: closed(each) for name, each in part.items()}
    return {**made, "additionalProperties": False} if isinstance(made.get("required"), list) else made


SCHEMA: dict[str, Any] = closed(json_schema())
