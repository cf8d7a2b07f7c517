"""Writes docs/openapi.json, the bridge's HTTP API, from the schemas of the protocols: `make diagrams`."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from marshmallow import Schema

from bridge import __version__
from bridge.errors import BridgeError, ClientDisconnected, MethodNotAllowed, UpgradeRefused, concrete_errors
from bridge.protocols import PROTOCOLS
from bridge.protocols.base import AnswerStoring, ConversationRules, Protocol
from bridge.protocols.fields import JSON_SCHEMA
from bridge.protocols.openai_responses.dialects import DIALECTS
from bridge.web.stored_answers import MOST_LISTED

Json = dict[str, Any]

PAGE = Path(__file__).parent / "openapi.json"
JSON, EVENTS = "application/json", "text/event-stream"
#: No client receives `ClientDisconnected`; the other two occur only outside the documented paths.
UNDOCUMENTED = (ClientDisconnected, MethodNotAllowed, UpgradeRefused)

_HI = {"parts": [{"text": "Hi"}]}

# These tables are optional for a protocol: an entry adds detail to its part of the document.

#: The items of a request's lists.
INSIDE: dict[str, Json] = {
    "openai_chat": {
        "messages": {"items": {"type": "object", "required": ["role"]}},
        "tools": {"items": {"type": "object", "required": ["type"]}},
    },
    "openai_responses": {
        "input": {"items": {"type": "object"}},
        "tools": {"items": {"type": "object", "required": ["type"]}},
    },
    "anthropic_messages": {
        "messages": {"items": {"type": "object", "required": ["role", "content"]}},
        "tools": {"items": {"type": "object", "required": ["name"]}},
    },
    "gemini_native": {"contents": {"items": {"type": "object"}}},
    "gemini_interactions": {
        "input": {"items": {"type": "object"}},
        "tools": {"items": {"type": "object", "required": ["type"]}},
    },
}

#: A small example request for each path, by the end of the path.
EXAMPLES: dict[str, Json] = {
    "/chat/completions": {"model": "gemini-flash", "messages": [{"role": "user", "content": "Hi"}]},
    "/v1/completions": {"model": "gemini-flash", "prompt": "def add(a, b):", "suffix": "\n"},
    "/embeddings": {"model": "gemini-embedding-2", "input": ["Hi"]},
    "/responses": {"model": "gemini-flash", "input": "Hi"},
    "/input_tokens": {"model": "gemini-flash", "input": "Hi"},
    "/responses/compact": {"model": "gemini-flash", "input": "Hi"},
    "/conversations": {"items": [{"role": "user", "content": "Hi"}]},
    "/conversations/{conversation_id}": {"metadata": {"topic": "demo"}},
    "/{conversation_id}/items": {"items": [{"role": "user", "content": "Hi"}]},
    "/interactions": {"model": "gemini-flash", "input": "Hi"},
    "/messages": {"model": "gemini-flash", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]},
    "/count_tokens": {"model": "gemini-flash", "messages": [{"role": "user", "content": "Hi"}]},
    "enerateContent": {"contents": [{"role": "user", **_HI}]},
    ":countTokens": {"contents": [{"role": "user", **_HI}]},
    ":embedContent": {"content": _HI},
    ":batchEmbedContents": {"requests": [{"content": _HI}]},
}

#: The fields that every answer has, by the end of the path.
ANSWERS: dict[str, tuple[str, ...]] = {
    "/chat/completions": ("id", "object", "created", "model", "choices", "usage"),
    "/v1/completions": ("id", "object", "created", "model", "choices", "usage"),
    "/embeddings": ("object", "data", "model", "usage"),
    "/responses": ("id", "object", "created_at", "status", "model", "output"),
    "/interactions": ("id", "object", "status", "model", "created", "updated", "steps"),
    "/messages": ("id", "type", "role", "model", "content", "stop_reason", "usage"),
    "/count_tokens": ("input_tokens",),
    "/input_tokens": ("object", "input_tokens"),
    "/responses/compact": ("id", "object", "created_at", "output", "usage"),
    ":generateContent": ("usageMetadata", "modelVersion"),
    ":countTokens": ("totalTokens",),
    ":embedContent": ("embedding",),
    ":batchEmbedContents": ("embeddings",),
}

_PAGES: Json = {
    "order": {"type": "string", "description": "`asc` for the oldest first, else the newest"},
    "after": {"type": "string", "description": "the id of the last item of the page before"},
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST_LISTED},
}
_STREAM: Json = {"enum": ["true", "false"], "description": "`true` streams the events of a background answer"}
_NUMBER: Json = {"type": "string", "pattern": "^[0-9]{1,15}$"}

#: The query parameters, by the end of the path.
QUERIES: dict[str, Json] = {
    ":streamGenerateContent": {"alt": {"type": "string", "description": "`sse` for events, else an array"}},
    "/input_items": _PAGES,
    "/{conversation_id}/items": _PAGES,
    "/responses/{answer_id}": {
        "stream": _STREAM,
        "starting_after": {**_NUMBER, "description": "stream only events with a greater sequence_number"},
    },
    "/interactions/{answer_id}": {
        "include_input": {"type": "string", "description": "`true` includes the input"},
        "stream": _STREAM,
        "last_event_id": {
            **_NUMBER,
            "description": "stream only the events after the one with this event_id",
        },
    },
    "/v1beta/models": {name: {"type": "string", "pattern": "^[0-9]*$"} for name in ("pageSize", "pageToken")},
}

#: The header of every request that may lose something.
STRICT: Json = {
    "name": "x-bridge-strict",
    "in": "header",
    "schema": {"enum": ["0", "1"], "description": "`1` refuses a request of which a part would be dropped"},
}
#: The request headers, by the end of the path.
HEADERS: dict[str, Json] = {
    "/responses": {"x-bridge-dialect": {"enum": list(DIALECTS), "description": "the dialect of the answer"}},
}


#: The protocols for readers: the vendor's name of the API, its page, and the header for the key.
ANTHROPIC_KEY, BEARER, GOOGLE_KEY = "x-api-key: KEY", "Authorization: Bearer KEY", "x-goog-api-key: KEY"
VENDORS: dict[str, tuple[str, str, str]] = {
    "openai_chat": (
        "OpenAI Chat Completions",
        "https://platform.openai.com/docs/api-reference/chat",
        BEARER,
    ),
    "openai_completions": (
        "OpenAI Completions",
        "https://platform.openai.com/docs/api-reference/completions",
        BEARER,
    ),
    "openai_responses": (
        "OpenAI Responses",
        "https://platform.openai.com/docs/api-reference/responses",
        BEARER,
    ),
    "anthropic_messages": (
        "Anthropic Messages",
        "https://platform.claude.com/docs/en/api/messages",
        ANTHROPIC_KEY,
    ),
    "gemini_native": ("Gemini API", "https://ai.google.dev/api/generate-content", GOOGLE_KEY),
    "gemini_interactions": (
        "Gemini Interactions",
        "https://ai.google.dev/gemini-api/docs/interactions",
        GOOGLE_KEY,
    ),
}
#: The tags of routes that belong to no single protocol.
MODELS, ACCOUNT, OPERATION = "models", "account", "operation"


def _tags() -> list[Json]:
    tags: list[Json] = []
    for protocol in PROTOCOLS:
        title, url, key = VENDORS.get(protocol.name, (protocol.name, "", BEARER))
        vendor = {"externalDocs": {"url": url, "description": f"{title} at the vendor"}} if url else {}
        tags.append({"name": protocol.name, "description": title, **vendor, "x-key-header": key})
    models = {"name": MODELS, "description": "Models", "x-key-header": BEARER}
    account = {"name": ACCOUNT, "description": "Limits and usage", "x-key-header": BEARER}
    return [*tags, models, account, {"name": OPERATION, "description": "Operation"}]


def _tag(path: str) -> str:
    for protocol in PROTOCOLS:
        stored = [protocol.conversations.path] if protocol.conversations else []
        own_paths = [*written(protocol.all_paths), *stored]
        if any(path == own or path.startswith(f"{own}/") for own in own_paths):
            return protocol.name
    if path.startswith(("/v1/bridge/", "/me")):
        return ACCOUNT
    listed = any(path.startswith(protocol.models_path) for protocol in PROTOCOLS)
    return MODELS if listed else OPERATION


def document() -> Json:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Gemini Bridge",
            "version": __version__,
            "description": "Only the essential fields. The bridge accepts unknown fields.",
        },
        "tags": _tags(),
        "security": [{}, *({name: []} for name in SECURITY)],
        "paths": _merged([*_requests(), *_stored(), *_conversations(), *_models(), *_operating()]),
        "components": {
            "securitySchemes": SECURITY,
            "schemas": {each.name: _shape_of(_errors(each)) for each in PROTOCOLS},
            "responses": {
                _name(each, status): answer for each in FACES for status, answer in _answers(each).items()
            },
        },
    }


SECURITY: Json = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "anthropic": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    "google": {"type": "apiKey", "in": "header", "name": "x-goog-api-key"},
    "google_query": {"type": "apiKey", "in": "query", "name": "key"},
}

Operation = tuple[str, str, Json]  #: path, method, OpenAPI operation object


def _keeps_only(path: str) -> bool:
    """Whether nothing of a request to this path is converted, so that nothing is lost."""
    stored = [protocol.conversations.path for protocol in PROTOCOLS if protocol.conversations]
    return any(path == own or path.startswith(f"{own}/") for own in (*stored, "/me"))


def _merged(operations: Iterable[Operation]) -> Json:
    paths: defaultdict[str, Json] = defaultdict(dict)
    for path, method, operation in operations:
        parameters = [
            *_path_parameters(path),
            *_parameters(QUERIES, "query", path),
            *_parameters(HEADERS, "header", path),
            *([STRICT] if "requestBody" in operation and not _keeps_only(path) else []),
        ]
        paths[path][method] = {
            "tags": [_tag(path)],
            **({"parameters": parameters} if parameters else {}),
            **operation,
        }
    return dict(paths)


def _path_parameters(path: str) -> list[Json]:
    place = {"in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    return [{"name": name, **place} for name in re.findall(r"{(\w+)}", path)]


def _parameters(table: dict[str, Json], place: str, path: str) -> list[Json]:
    found = _by_end(table, path) or {}
    return [{"name": name, "in": place, "schema": schema} for name, schema in found.items()]


# --- requests ----------------------------------------------------------------------------------------


def _requests() -> Iterator[Operation]:
    for protocol in PROTOCOLS:
        purposes = {
            "Create an answer": protocol,
            "Count the tokens of a request": protocol.counting,
            "Compute embeddings": protocol.embedding,
            "Compact a conversation": protocol.compaction,
        }
        for purpose, asked in purposes.items():
            for path in written(asked.paths if asked else ()):
                operation = _operation(protocol, asked.schema, path, streams=asked is protocol)
                yield path, "post", _for(purpose, operation)


def written(rules: Iterable[str]) -> Iterator[str]:
    """Flask's URL rules in OpenAPI's notation: one path for each choice, parameters in braces."""
    for rule in rules:
        before, choices, after = (*re.split(r"<any\(([^)]*)\):\w+>", rule), "", "")[:3]
        for choice in choices.split(", "):
            yield re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", before + choice + after)


def _operation(protocol: Protocol, schema: Schema, path: str, *, streams: bool) -> Json:
    content: Json = {JSON: {"schema": _answer(path)}}
    if streams and not path.endswith(":generateContent"):
        content[EVENTS] = {}
    face = (protocol,) if path.startswith(protocol.path_prefixes) else PROTOCOLS
    asked = {"schema": _request(schema, INSIDE.get(protocol.name, {}))}
    if example := _by_end(EXAMPLES, path):
        asked["example"] = example
    return {
        "requestBody": {"required": True, "content": {JSON: asked}},
        "responses": {"200": {"description": "The answer", "content": content}, **_failures(face)},
    }


def _by_end(table: dict[str, Any], path: str) -> Any:
    return next((value for end, value in table.items() if path.endswith(end)), None)


def _answer(path: str) -> Json:
    if path.endswith(":streamGenerateContent"):
        return {"type": "array"}
    return {"type": "object", "required": list(_by_end(ANSWERS, path) or ())}


def _request(schema: Schema, inside: Json) -> Json:
    properties: Json = {}
    for name, field in schema.fields.items():
        shape = {**field.metadata[JSON_SCHEMA], **inside.get(name, {})}
        properties[name] = {"anyOf": [shape, {"type": "null"}]} if field.allow_none else shape
    required = [name for name, field in schema.fields.items() if field.required]
    return {"type": "object", "required": required, "properties": properties}


# --- failures ----------------------------------------------------------------------------------------


Face = tuple[Protocol, ...]  #: the protocols that a path may serve

FACES: list[Face] = [*((protocol,) for protocol in PROTOCOLS), PROTOCOLS]


def _documented_errors() -> list[BridgeError]:
    kinds = [kind for kind in concrete_errors() if not issubclass(kind, UNDOCUMENTED)]
    return [kind("What happened", param=param) for kind in kinds for param in (None, "field")]


def _errors(protocol: Protocol) -> list[Json]:
    return [protocol.error_body(error, "req_1") for error in _documented_errors()]


def _name(face: Face, status: int) -> str:
    return f"{'any' if len(face) > 1 else face[0].name}_{status}"


def _answers(face: Face) -> dict[int, Json]:
    """Each status with its error kinds, in the envelope of any of the protocols that the path serves."""
    meanings: defaultdict[int, set[str]] = defaultdict(set)
    for protocol in face:
        for error in _documented_errors():
            meanings[protocol.error_status(error)].add(error.kind)
    content = {JSON: {"schema": {"anyOf": [{"$ref": f"#/components/schemas/{each.name}"} for each in face]}}}
    return {
        status: {"description": ", ".join(sorted(kinds)), "content": content}
        for status, kinds in sorted(meanings.items())
    }


def _failures(face: Face) -> Json:
    return {
        str(status): {"$ref": f"#/components/responses/{_name(face, status)}"} for status in _answers(face)
    }


_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", type(None): "null"}


def _shape_of(samples: list[Any]) -> Json:
    """A schema that all samples match, and that requires the fields that all of them have."""
    if not all(isinstance(each, dict) for each in samples):
        types = sorted({_TYPES[type(each)] for each in samples})
        return {"type": types if types[1:] else types[0]}
    names = list(dict.fromkeys(name for each in samples for name in each))
    return {
        "type": "object",
        "required": [name for name in names if all(name in each for each in samples)],
        "properties": {name: _shape_of([each[name] for each in samples if name in each]) for name in names},
    }


# --- everything else ---------------------------------------------------------------------------------


def _found(face: Face, *required: str) -> Json:
    content = {JSON: {"schema": {"type": "object", "required": list(required)}}}
    return {"responses": {"200": {"description": "Found", "content": content}, **_failures(face)}}


def _for(purpose: str, operation: Json) -> Json:
    return {"summary": purpose, **operation}


def _stored() -> Iterator[Operation]:
    for protocol in PROTOCOLS:
        if protocol.storing is not None:
            yield from _stored_at(protocol, protocol.storing)


def _stored_at(protocol: Protocol, storing: AnswerStoring) -> Iterator[Operation]:
    for asked in protocol.paths:
        path = f"{asked}/{{answer_id}}"
        shown = _found((protocol,), *_by_end(ANSWERS, asked))
        shown["responses"]["200"]["content"][EVENTS] = {}
        yield path, "get", _for("Show a stored answer, or replay its events", shown)
        deleted = _found((protocol,), *storing.deletion_body(""))
        yield path, "delete", _for("Delete a stored answer", deleted)
        for behind in storing.cancel_paths:
            cancelled = _found((protocol,), "id", "object", "status")
            yield f"{path}{behind}", "post", _for("Cancel a background answer", cancelled)
        if storing.input_path is not None:
            items = _found((protocol,), "object", "data", "has_more")
            yield f"{path}{storing.input_path}", "get", _for("List the input items of a stored answer", items)


def _conversations() -> Iterator[Operation]:
    for protocol in PROTOCOLS:
        if (rules := protocol.conversations) is not None:
            yield from _conversations_at(protocol, rules)


def _conversations_at(protocol: Protocol, rules: ConversationRules) -> Iterator[Operation]:
    one = f"{rules.path}/{{conversation_id}}"
    items, item = f"{one}/items", f"{one}/items/{{item_id}}"
    shown = ("id", "object", "created_at", "metadata")
    listed = ("object", "data", "first_id", "last_id", "has_more")
    for path, schema, fields, summary in (
        (rules.path, rules.create_schema, shown, "Create a conversation"),
        (one, rules.update_schema, shown, "Change the metadata of a conversation"),
        (items, rules.add_schema, listed, "Add items to a conversation"),
    ):
        asked = {"schema": _request(schema, {}), "example": _by_end(EXAMPLES, path)}
        body = {"requestBody": {"required": True, "content": {JSON: asked}}}
        yield path, "post", _for(summary, {**body, **_found((protocol,), *fields)})
    yield one, "get", _for("Show a conversation", _found((protocol,), *shown))
    yield one, "delete", _for("Delete a conversation", _found((protocol,), *rules.deletion_body("")))
    yield items, "get", _for("List the items of a conversation", _found((protocol,), *listed))
    yield item, "get", _for("Show an item of a conversation", _found((protocol,), "id", "type"))
    yield item, "delete", _for("Delete an item of a conversation", _found((protocol,), *shown))


def _models() -> Iterator[Operation]:
    """Where the path does not identify the protocol, the answer has the format of the caller's vendor."""
    for path in dict.fromkeys(protocol.models_path for protocol in PROTOCOLS):
        alone = tuple(each for each in PROTOCOLS if each.root and path.startswith(each.root))
        yield path, "get", _for("List the models", _found(alone or PROTOCOLS))
        yield f"{path}/{{name}}", "get", _for("Show one model", _found(alone or PROTOCOLS))


def _operating() -> Iterator[Operation]:
    status = {JSON: {"schema": {"type": "object", "required": ["status"]}}}
    about = {JSON: {"schema": {"type": "object", "required": ["name", "version", "endpoints"]}}}
    text = {"schema": {"type": "string"}}
    hidden = {"404": _failures(PROTOCOLS)["404"]}
    front = _open({"200": {"description": "What this is", "content": {**about, "text/html": text}}})
    yield "/", "get", _for("Describe the service, with settings for clients", front)
    page = _open({"200": {"description": "A page for people", "content": {"text/html": text}}})
    yield "/docs", "get", _for("Show the endpoints on a page", page)
    described = {JSON: {"schema": {"type": "object", "required": ["openapi", "info", "paths"]}}}
    itself = _open({"200": {"description": "This document", "content": described}})
    yield "/openapi.json", "get", _for("Describe the endpoints for programs", itself)
    models = {JSON: {"schema": {"type": "object", "required": ["models"]}}}
    codex = {"200": {"description": "The models, for Codex's model_catalog_json", "content": models}}
    yield "/connect/codex-models.json", "get", _for("List the models in Codex's format", _open(codex))
    alive = _open({"200": {"description": "Alive", "content": status}})
    yield "/healthz", "get", _for("Check that the process lives", alive)
    ready = {"200": {"description": "Ready", "content": status}}
    draining = {"503": {"description": "Draining", "content": status}}
    yield "/readyz", "get", _for("Check that the service takes requests", _open({**ready, **draining}))
    shown = {"200": {"description": "For Prometheus", "content": {"text/plain": text}}}
    account = {JSON: {"schema": {"type": "object", "required": ["object", "limits", "usage"]}}}
    mine = {
        "200": {"description": "As JSON, or as one line of text", "content": {**account, "text/plain": text}}
    }
    failed = {status: each for status, each in _failures(PROTOCOLS).items() if status in ("401", "503")}
    responses = {"responses": {**mine, **failed}}
    yield "/v1/bridge/me", "get", _for("Show the limits and the usage of the key", responses)
    yield from _account_pages()
    yield "/metrics", "get", _for("Show the metrics for Prometheus", _open({**shown, **hidden}))


def _account_pages() -> Iterator[Operation]:
    """The page /me for browsers, and its forms."""
    html = {"text/html": {"schema": {"type": "string"}}}
    page = {"200": {"description": "A page for people", "content": html}}
    form = {"401": {"description": "A form to sign in", "content": html}}
    moved = {"303": {"description": "To the page /me"}}
    failed = {
        status: each for status, each in _failures(PROTOCOLS).items() if status in ("404", "413", "503")
    }
    refused = {
        status: {"description": "Refused, in words or as a form", "content": {**html, JSON: {}}}
        for status in ("403", "429")
    }
    yield (
        "/me",
        "get",
        _for("Show the limits and the usage of the key on a page", _open({**page, **form, **failed})),
    )
    for path, purpose, field in (("sign-in", "Sign in", "key"), ("sign-out", "Sign out", "token")):
        fields = {"type": "object", "properties": {field: {"type": "string"}}}
        body = {"content": {"application/x-www-form-urlencoded": {"schema": fields}}}
        answers = _open({**moved, **refused, **failed})
        yield f"/me/{path}", "post", _for(purpose, {"requestBody": body, **answers})


def _open(responses: Json) -> Json:
    return {"security": [], "responses": responses}


def page() -> str:
    return json.dumps(document(), indent=1) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
