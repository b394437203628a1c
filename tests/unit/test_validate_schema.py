"""The schema of the JSON object, which is made from the dataclasses of the object itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import jsonschema
import pytest

from tests.unit.test_validate_checks import collected
from tests.validated import SCHEMA
from tools.thp_validate import checks, report, schema
from tools.thp_validate.document import json_schema

COLOURS = ("red", "green")


@dataclass
class Part:
    """A part of it,
    and how many.

    More for readers of the code.
    """

    count: int | None
    within: list[Part]


@dataclass
class Whole:
    """The whole."""

    COMPUTED: ClassVar = ("twice",)
    colour: Annotated[str, "of the whole", COLOURS]
    parts: dict[str, Part]
    size: Annotated[float, "in metres"] = 1.5

    @property
    def twice(self) -> Annotated[float | None, "two of them"]:
        return 2 * self.size


def test_a_dataclass_becomes_a_schema() -> None:
    made = schema.document(Whole, "Toy")
    assert made["description"] == "The whole."
    assert made["required"] == ["colour", "parts", "size", "twice"]
    assert made["properties"]["colour"] == {"type": "string", "description": "of the whole", "enum": ["red", "green"]}
    assert made["properties"]["parts"] == {"type": "object", "additionalProperties": {"$ref": "#/$defs/Part"}}
    assert made["properties"]["twice"]["anyOf"] == [{"type": "number"}, {"type": "null"}]
    assert made["$defs"]["Part"]["description"] == "A part of it, and how many."
    assert made["$defs"]["Part"]["properties"]["within"] == {"type": "array", "items": {"$ref": "#/$defs/Part"}}


@pytest.mark.parametrize(
    "wrong", [{"colour": "blue"}, {"parts": {"a": {"count": "1", "within": []}}}, {"parts": {"a": {}}}, {"twice": ""}]
)
def test_an_object_is_what_its_schema_says(wrong: dict[str, Any]) -> None:
    made = schema.plain(Whole("red", {"a": Part(1, [Part(None, [])])}))
    assert made["parts"]["a"]["within"] == [{"count": None, "within": []}]
    described = schema.document(Whole, "Toy")
    jsonschema.validate({**json.loads(json.dumps(made)), "later": 1}, described)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**made, **wrong}, described)


def test_ours_is_a_schema_that_describes_every_class() -> None:
    made = json_schema()
    jsonschema.Draft202012Validator.check_schema(made)
    for name, part in [("the object", made), *made["$defs"].items()]:
        # What a dataclass without a text of its own gets.
        assert not part["description"].startswith(f"{name}("), name


def test_ours_is_open_and_still_strict(tmp_path: Path) -> None:
    found = collected(tmp_path, {})
    made = report.as_json(found, checks.evaluate(found))
    jsonschema.validate({**made, "later": 1, "host": {**made["host"], "later": 1}}, json_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**made, "later": 1}, SCHEMA)
    broken_blocks = {**made["blocks"], "fragmented": None}
    changes: list[dict[str, Any]] = [{"verdict": "fine"}, {"checks": {"a": "fine"}}, {"blocks": {}}]
    for change in [*changes, {"blocks": broken_blocks}]:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**made, **change}, json_schema())
