"""The form of the JSON object, from the annotations of the dataclasses that it is made of.

A field is annotated with its type, or with `Annotated[type, "description"]`, or with `Annotated[type, "description",
VALUES]`, where VALUES is a tuple in the same module. A class names in COMPUTED the properties that are also in the
object. Annotations are read as text: Python 3.9 cannot evaluate `str | None`.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
from collections.abc import Iterator, Mapping
from typing import Any

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
BASIC = {"bool": "boolean", "int": "integer", "float": "number", "str": "string"}
COMPUTED = "COMPUTED"


def plain(value: Any) -> Any:  # noqa: ANN401
    """Return what `json` can print of a value: of a dataclass, its fields and computed properties."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)] + list(getattr(value, COMPUTED, ()))
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


def document(root: type, title: str) -> Schema:
    """Return the JSON Schema of what `plain` makes of a dataclass. It is open: unknown fields are valid."""
    definitions: dict[str, Schema] = {}
    described = _class(root, definitions)
    return {"$schema": DIALECT, "title": title, **described, "$defs": definitions}


def _class(shape: type, definitions: dict[str, Schema]) -> Schema:
    scope = vars(sys.modules[shape.__module__])
    properties = {}
    for name, annotation, description in _members(shape):
        found = _of(ast.parse(annotation, mode="eval").body, scope, definitions)
        properties[name] = {**found, "description": description} if description else found
    made: Schema = {"type": "object", "required": list(properties), "properties": properties}
    return {"description": _summary(shape), **made}


def _members(shape: type) -> Iterator[tuple[str, str, str]]:
    """Yield name, annotation and description, which is empty where the annotation has one."""
    for field in dataclasses.fields(shape):
        yield field.name, str(field.type), ""
    for name in getattr(shape, COMPUTED, ()):
        get = getattr(shape, name).fget
        yield name, get.__annotations__["return"], _summary(get)


def _summary(documented: object) -> str:
    return " ".join((inspect.getdoc(documented) or "").split("\n\n")[0].split())


def _of(node: ast.expr, scope: Mapping[str, Any], definitions: dict[str, Schema]) -> Schema:
    def of(part: ast.expr) -> Schema:
        return _of(part, scope, definitions)

    if isinstance(node, ast.BinOp):
        return {"anyOf": [of(node.left), of(node.right)]}
    if isinstance(node, ast.Constant) and node.value is None:
        return {"type": "null"}
    if isinstance(node, ast.Name):
        if node.id in BASIC:
            return {"type": BASIC[node.id]}
        shape = scope[node.id]
        if shape.__name__ not in definitions:
            definitions[shape.__name__] = {}
            definitions[shape.__name__] = _class(shape, definitions)
        return {"$ref": f"#/$defs/{shape.__name__}"}
    assert isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name), ast.dump(node)
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if node.value.id == "list":
        return {"type": "array", "items": of(parts[0])}
    if node.value.id == "dict":
        return {"type": "object", "additionalProperties": of(parts[1])}
    assert node.value.id == "Annotated", ast.dump(node)
    found = {**of(parts[0]), "description": ast.literal_eval(parts[1])}
    if len(parts) > 2:
        assert isinstance(parts[2], ast.Name)
        found["enum"] = list(scope[parts[2].id])
    return found
