"""Whether a value fits a schema, for the few words of JSON Schema that the tests use."""

from __future__ import annotations

__all__ = ["misfit"]

_KINDS = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def misfit(value: object, schema: dict, place: str = "arguments") -> str | None:
    """What is wrong with the value, in a sentence; `None` when it fits."""
    if "const" in schema and value != schema["const"]:
        return f"{place} is {value!r}, not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{place} is {value!r}, none of {schema['enum']}"
    if "anyOf" in schema and all(misfit(value, option, place) for option in schema["anyOf"]):
        return f"{place} is {value!r}, which fits no option"
    kind = schema.get("type")
    if kind and (not isinstance(value, _KINDS[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return f"{place} is {value!r}, which is no {kind}"
    return (
        _in_object(value, schema, place) or _in_list(value, schema, place) or _in_bounds(value, schema, place)
    )


def _in_object(value: object, schema: dict, place: str) -> str | None:
    if not isinstance(value, dict):
        return None
    properties = schema.get("properties", {})
    if missing := set(schema.get("required", ())) - value.keys():
        return f"{place} lacks {missing}"
    if schema.get("additionalProperties") is False and (more := value.keys() - properties.keys()):
        return f"{place} has {more} too many"
    found = (misfit(value[name], properties[name], f"{place}.{name}") for name in value if name in properties)
    return next((wrong for wrong in found if wrong), None)


def _in_list(value: object, schema: dict, place: str) -> str | None:
    if not isinstance(value, list):
        return None
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return f"{place} has {len(value)} items"
    found = (misfit(item, schema.get("items", {}), f"{place}[{n}]") for n, item in enumerate(value))
    return next((wrong for wrong in found if wrong), None)


def _in_bounds(value: object, schema: dict, place: str) -> str | None:
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        return f"{place} has {len(value)} characters"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return f"{place} is {value}"
    return None
