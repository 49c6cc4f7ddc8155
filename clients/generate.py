#!/usr/bin/env python3
"""Writes what the clients take from the OpenAPI document: the types of the Python client, and what to do about each code.

usage: generate.py OPENAPI.json FOLDER

FOLDER is the folder `clients`, or a copy of its structure. The types of the TypeScript client are then made of its
`typescript/build/schemas.json` by openapi-typescript.
"""

from __future__ import annotations

import json
import keyword
import re
import sys
from pathlib import Path
from typing import Any

MADE = "Made of the OpenAPI document by clients/generate.py; changes belong there."


def name_of(schema: dict[str, Any]) -> str | None:
    """The schema that another one refers to."""
    found = re.fullmatch(r"#/components/schemas/(\w+)", schema.get("$ref", ""))
    return found.group(1) if found else None


class Types:
    """The Python type of each schema, as text."""

    def __init__(self) -> None:
        self.classes: list[str] = []
        self.aliases: list[str] = []

    def of(self, schema: Any, name: str) -> str:
        """The type of a schema that stands in a place of this name."""
        if not isinstance(schema, dict):
            return "Any"
        if "$ref" in schema:
            return name_of(schema) or "dict[str, Any]"
        if "const" in schema:
            return f"Literal[{schema['const']!r}]"
        if "enum" in schema:
            return f"Literal[{', '.join(repr(value) for value in schema['enum'])}]"
        if "oneOf" in schema:
            several = sum(kind.get("type") != "null" for kind in schema["oneOf"]) > 1
            kinds = [self.of(kind, f"{name}{at + 1 if several else ''}") for at, kind in enumerate(schema["oneOf"])]
            # None comes last, as people write it.
            return " | ".join(sorted(kinds, key=lambda kind: kind == "None"))
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        return " | ".join(self.plain(kind, schema, name) for kind in kinds) or "Any"

    def plain(self, kind: str, schema: dict[str, Any], name: str) -> str:
        simple = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
        if kind in simple:
            return simple[kind]
        if kind == "array":
            item = self.of(schema.get("items", {}), f"{name}Item")
            return f"list[{item}]"
        if "properties" in schema:
            self.structure(name, schema)
            return name
        values = schema.get("additionalProperties")
        return f"dict[str, {self.of(values, name + 'Value') if isinstance(values, dict) else 'Any'}]"

    def structure(self, name: str, schema: dict[str, Any]) -> None:
        base = name_of(schema) or "TypedDict"
        lines = [f"class {name}({base}):"]
        if about := schema.get("description"):
            lines.append(f'    """{about}"""\n')
        required = schema.get("required", [])
        fields: dict[str, str] = {}
        for field, inner in schema.get("properties", {}).items():
            kind = self.of(inner, name + "".join(part.capitalize() for part in field.split("_")))
            if about := isinstance(inner, dict) and inner.get("description"):
                lines.append(f"    #: {about}")
            fields[field] = kind if field in required else f"NotRequired[{kind}]"
            lines.append(f"    {field}: {fields[field]}")
        if any(keyword.iskeyword(field) for field in fields):
            # A class has no members of such names.
            members = ", ".join(f'"{field}": "{kind}"' for field, kind in fields.items())
            self.classes.append(f'{name} = TypedDict("{name}", {{{members}}})')
            return
        if len(lines) == 1:
            lines.append("    pass")
        self.classes.append("\n".join(lines))

    def add(self, name: str, schema: dict[str, Any]) -> None:
        if "properties" in schema or "$ref" in schema:
            self.structure(name, schema)
        else:
            # Names in aliases are looked up when the module is read, so they come after all classes.
            kinds = self.of(schema, name).split(" | ")
            self.aliases.append(f"{name} = {kinds[0] if len(kinds) == 1 else 'Union[' + ', '.join(kinds) + ']'}")


def flattened(document: dict[str, Any]) -> dict[str, Any]:
    """The schemas without examples; the event as one of its types, each with the data that it has."""
    text = json.dumps({name: schema for name, schema in document["components"]["schemas"].items() if name != "Event"})
    event = document["components"]["schemas"]["Event"]
    named = {name: "Event" + "".join(part.capitalize() for part in re.split(r"[._]", name)) for name in event["$defs"]}
    placed = json.dumps(event)
    for name, new in sorted(named.items(), reverse=True):
        placed = placed.replace(f'#/components/schemas/Event/$defs/{name}"', f'#/components/schemas/{new}"')
    event = json.loads(placed)
    schemas = {**json.loads(text), **{named[name]: schema for name, schema in event["$defs"].items()}}
    kinds = []
    for case in event["allOf"]:
        name = case["if"]["properties"]["type"]["const"]
        kind = "".join(part.capitalize() for part in re.split(r"[._]", name)) + "Event"
        more = {"type": {"const": name}, "data": case["then"]["properties"]["data"]}
        schemas[kind] = {"type": "object", "properties": {**event["properties"], **more}, "required": event["required"]}
        kinds.append({"$ref": f"#/components/schemas/{kind}"})
    schemas["Event"] = {"description": "One event of a run's log.", "oneOf": kinds}
    for schema in schemas.values():
        schema.pop("examples", None)
    return schemas


def python_types(document: dict[str, Any]) -> str:
    types = Types()
    for name, schema in flattened(document).items():
        types.add(name, schema)
    head = [
        f'"""What the service takes and answers. {MADE}"""',
        "from __future__ import annotations",
        "from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union",
        "if TYPE_CHECKING:\n    from typing_extensions import NotRequired",
    ]
    return "\n\n".join(head) + "\n\n\n" + "\n\n\n".join(types.classes) + "\n\n\n" + "\n".join(types.aliases) + "\n"


def hints(document: dict[str, Any]) -> dict[str, str]:
    examples = document["components"]["examples"]
    return {code: text["description"].removeprefix("What to do: ") for code, text in sorted(examples.items())}


def python_codes(document: dict[str, Any]) -> str:
    lines = [f"    {json.dumps(code)}: {json.dumps(hint, ensure_ascii=False)}," for code, hint in hints(document).items()]
    return f'"""What to do about each error code. {MADE}"""\n\nHINTS: dict[str, str] = {{\n' + "\n".join(lines) + "\n}\n"


def typescript_codes(document: dict[str, Any]) -> str:
    lines = [f"  {code}: {json.dumps(hint, ensure_ascii=False)}," for code, hint in hints(document).items()]
    begin = f"// What to do about each error code. {MADE}\n\nexport const HINTS: Readonly<Record<string, string>> = {{\n"
    return begin + "\n".join(lines) + "\n};\n"


def main() -> None:
    document = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    folder = Path(sys.argv[2])
    # What openapi-typescript makes src/api.ts of.
    schemas = {"openapi": "3.1.0", "info": document["info"], "paths": {}, "components": {"schemas": flattened(document)}}
    made = {
        "python/src/skill_runner_client/types.py": python_types(document),
        "python/src/skill_runner_client/_codes.py": python_codes(document),
        "typescript/src/codes.ts": typescript_codes(document),
        "typescript/build/schemas.json": json.dumps(schemas),
    }
    for path, text in made.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


main()
