"""Holds answers to docs/openapi.yaml: status, headers, body. As much of JSON Schema as that file uses."""
import functools
import os
import re
import uuid

import yaml

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "openapi.yaml")
TYPES = {"object": dict, "string": str, "boolean": bool, "array": list}
KNOWN = {"$ref", "type", "format", "minimum", "maximum", "maxLength", "pattern", "enum", "const", "required", "properties",
         "additionalProperties", "description", "example"}


@functools.lru_cache(maxsize=None)
def document():
    with open(FILE) as f:
        return yaml.safe_load(f)


def resolve(node):
    while "$ref" in node:
        target = document()
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = {**target, **{k: v for k, v in node.items() if k != "$ref"}}
    return node


def check_schema(schema, value, where="$"):
    schema = resolve(schema)
    assert set(schema) <= KNOWN, f"{where}: this validator does not know {set(schema) - KNOWN}"
    kind = schema.get("type")
    if kind == "integer":
        assert isinstance(value, int) and not isinstance(value, bool), f"{where}: {value!r} is no integer"
    elif kind:
        assert isinstance(value, TYPES[kind]), f"{where}: {value!r} is no {kind}"
    if "const" in schema:
        assert value == schema["const"], f"{where}: {value!r}"
    if "enum" in schema:
        assert value in schema["enum"], f"{where}: {value!r}"
    if kind == "integer":
        assert schema.get("minimum", value) <= value <= schema.get("maximum", value), f"{where}: {value!r}"
    if "pattern" in schema:
        assert re.search(schema["pattern"], value), f"{where}: {value!r}"
    if schema.get("format") == "uuid":
        assert str(uuid.UUID(value)) == value, f"{where}: {value!r}"
    if schema.get("format") == "date-time":
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", value), f"{where}: {value!r}"
    if kind == "object":
        properties = schema.get("properties", {})
        missing = set(schema.get("required", ())) - set(value)
        assert not missing, f"{where}: without {missing}"
        for name, member in value.items():
            if name in properties:
                check_schema(properties[name], member, f"{where}.{name}")
            else:
                assert schema.get("additionalProperties", True), f"{where}: {name} is not declared"


def operation(method, path):
    """Of a path as sent. None: not in the document."""
    for template, methods in document()["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            return methods.get(method.lower())
    return None


def check(response):
    """An answer as requests has it. Of paths that the document does not name, nothing is checked."""
    path = response.request.path_url.split("?")[0]
    op = operation(response.request.method, path)
    if op is None:
        return response
    what = f"{response.request.method} {path} {response.status_code}"
    assert str(response.status_code) in op["responses"], f"{what} is not declared"
    declared = resolve(op["responses"][str(response.status_code)])
    for name, header in declared.get("headers", {}).items():
        header = resolve(header)
        if name in response.headers:
            value = response.headers[name]
            check_schema(header["schema"], int(value) if header["schema"].get("type") == "integer" else value, f"{what} {name}")
        else:
            assert header.get("required") is False, f"{what}: no {name}"
    kind = response.headers["Content-Type"]
    assert kind in declared["content"], f"{what}: {kind}"
    check_schema(declared["content"][kind]["schema"], response.json(), what)
    return response
