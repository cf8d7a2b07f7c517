"""Reduces a vendor's OpenAPI document to the structure that the tests check.

Run `python tests/specs/extract.py NAME FILE`. NAME is a key of `DOCUMENTS`; FILE is the vendor's document as
JSON. The script writes the result to its own folder, and the tests need nothing else. It leaves out texts,
examples and extensions, and every component that no body of the bridge's requests and answers refers to.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Schema = dict[str, Any]

HERE = Path(__file__).parent
REFERENCE = "#/components/schemas/"

#: The components to start from, for each document. A path and a media type name an answer's schema.
DOCUMENTS: Mapping[str, tuple[str, ...]] = {
    "openai": (
        "CreateResponse",
        "Response",
        "ResponseStreamEvent",
        "ResponseItemList",
        "TokenCountsBody",
        "TokenCountsResource",
        "CompactResponseMethodPublicBody",
        "CompactResource",
        "CreateChatCompletionRequest",
        "CreateChatCompletionResponse",
        "CreateChatCompletionStreamResponse",
        "CreateCompletionRequest",
        "CreateCompletionResponse",
        "CreateEmbeddingRequest",
        "CreateEmbeddingResponse",
        "CreateConversationBody",
        "UpdateConversationBody",
        "ConversationResource",
        "ConversationItemList",
        "ConversationItem",
        "DeletedConversationResource",
        "ListModelsResponse",
        "Model",
        "ErrorResponse",
    ),
    "openresponses": (
        "CreateResponseBody",
        "ResponseResource",
        "CompactResource",
        "/responses text/event-stream",
    ),
}
STREAM_EVENT = "StreamEvent"  #: the name given to a schema that has none in its document

#: Keywords whose value is data, kept as they are.
PLAIN = (
    *("type", "enum", "const", "required", "pattern", "minimum", "maximum", "exclusiveMinimum"),
    *("minLength", "maxLength", "minItems", "maxItems", "maxProperties"),
)
#: Keywords whose value is one schema.
NESTED = ("items", "not", "propertyNames")


def reduced(schema: Any, owner: str) -> Any:
    """The schema without its texts. `oneOf` becomes `anyOf`: the vendors' alternatives overlap, and their own
    answers would break the stricter rule. `owner` is the component that a recursive reference means."""
    if isinstance(schema, bool):
        return schema
    kept = {name: schema[name] for name in PLAIN if name in schema}
    if "$ref" in schema:
        kept["$ref"] = schema["$ref"]
    if schema.get("$recursiveRef") == "#":
        kept["$ref"] = REFERENCE + owner
    if "properties" in schema:
        kept["properties"] = {name: reduced(each, owner) for name, each in schema["properties"].items()}
    for name in NESTED:
        if name in schema:
            kept[name] = reduced(schema[name], owner)
    if isinstance(schema.get("additionalProperties"), bool | dict):
        kept["additionalProperties"] = reduced(schema["additionalProperties"], owner)
    for theirs, ours in (("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")):
        if theirs in schema:
            kept[ours] = [reduced(each, owner) for each in schema[theirs]]
    return _nullable(kept) if schema.get("nullable") else kept


def _nullable(schema: Schema) -> Schema:
    """The old keyword in today's words."""
    return {"anyOf": [schema, {"type": "null"}]}


def references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix(REFERENCE)
        for value in schema.values():
            yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def reachable(components: Mapping[str, Schema], roots: Iterable[str]) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = reduced(components[name], name)
            waiting += references(found[name])
    return dict(sorted(found.items()))


def _named(document: Mapping[str, Any], root: str) -> tuple[str, Schema]:
    """A root's name and schema."""
    if not root.startswith("/"):
        return root, document["components"]["schemas"][root]
    path, media_type = root.split(" ")
    content: Mapping[str, Any] = document["paths"][path]["post"]["responses"]["200"]["content"]
    return STREAM_EVENT, content[media_type]["schema"]


def extract(document: Mapping[str, Any], roots: Iterable[str]) -> dict[str, Any]:
    named = dict(_named(document, root) for root in roots)
    components = {**document["components"]["schemas"], **named}
    return {"version": document["info"]["version"], "components": reachable(components, named)}


def written(result: Mapping[str, Any]) -> str:
    """One component on each line, so that a newer document shows as a readable difference."""
    lines = [
        f"{json.dumps(name)}:{json.dumps(schema, separators=(',', ':'), sort_keys=True)}"
        for name, schema in result["components"].items()
    ]
    body = ",\n".join(lines)
    return f'{{"version":{json.dumps(result["version"])},"components":{{\n{body}\n}}}}\n'


def main() -> None:
    parser = argparse.ArgumentParser(description="Reduce a vendor's document to what the tests check.")
    parser.add_argument("name", choices=DOCUMENTS)
    parser.add_argument("file", type=Path, help="the vendor's OpenAPI document, as JSON")
    asked = parser.parse_args()
    result = extract(json.loads(asked.file.read_text()), DOCUMENTS[asked.name])
    (HERE / f"{asked.name}.json").write_text(written(result))


if __name__ == "__main__":
    main()
