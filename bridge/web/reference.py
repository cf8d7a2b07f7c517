"""GET /openapi.json and GET /docs: the HTTP interface, for programs and as a page for people.

Both show the document that `docs/openapi.py` generates. The page is self-contained and has no script; its
Content-Security-Policy allows only its own style.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson
from flask import Response, render_template
from markupsafe import Markup

from bridge import __version__
from bridge.connect.clients import PLACEHOLDER_KEY
from bridge.settings.source import PROJECT
from bridge.web.page import asset, policy

DOCUMENT = PROJECT / "docs" / "openapi.json"
NAME_IN_PATH = {"{model}": "gemini-flash-latest"}  #: values for the examples; other paths have no example


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: str
    path: str
    purpose: str
    open_to_all: bool  #: needs no key


@dataclass(frozen=True, slots=True)
class Failure:
    status: str
    kinds: str


@dataclass(frozen=True, slots=True)
class EndpointGroup:
    """The endpoints of one protocol, or of none."""

    name: str
    title: str
    vendor_page: str  #: empty if the group is not the API of a vendor
    key_header: str
    endpoints: tuple[Endpoint, ...]
    example: str
    failures: tuple[Failure, ...]


@cache
def document_bytes() -> bytes:
    return DOCUMENT.read_bytes()


def _groups(document: dict[str, Any], address: str) -> Iterator[EndpointGroup]:
    for tag in document["tags"]:
        found = list(_operations(document, tag["name"]))
        yield EndpointGroup(
            name=tag["name"],
            title=tag["description"],
            vendor_page=tag.get("externalDocs", {}).get("url", ""),
            key_header=tag.get("x-key-header", ""),
            endpoints=tuple(_endpoint(*each) for each in found),
            example=_example(found, address, tag.get("x-key-header", "")),
            failures=tuple(_failures(document, tag["name"])),
        )


Found = tuple[str, str, dict[str, Any]]  #: path, method, operation


def _operations(document: dict[str, Any], tag: str) -> Iterator[Found]:
    for path, methods in document["paths"].items():
        yield from ((path, method, each) for method, each in methods.items() if tag in each["tags"])


def _endpoint(path: str, method: str, operation: dict[str, Any]) -> Endpoint:
    return Endpoint(method.upper(), path, operation["summary"], operation.get("security") == [])


def _example(found: list[Found], address: str, key_header: str) -> str:
    """A command for the first endpoint of a group that has an example."""
    for path, method, operation in found:
        for place, value in NAME_IN_PATH.items():
            path = path.replace(place, value)
        body = _example_body(operation)
        if "{" not in path and (body or method == "get"):
            key = key_header.replace("KEY", PLACEHOLDER_KEY)
            return _curl(f"{address}{path}", key, body)
    return ""


def _example_body(operation: dict[str, Any]) -> Any:
    contents = operation.get("requestBody", {}).get("content", {}).values()
    return next((content["example"] for content in contents if "example" in content), None)


def _curl(url: str, key: str, body: Any) -> str:
    lines = [f"curl {url}"]
    lines += [f"-H '{key}'"] if key else []
    if body is not None:
        lines += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(body)}'"]
    return " \\\n  ".join(lines)


def _failures(document: dict[str, Any], name: str) -> Iterator[Failure]:
    for label, response in document["components"]["responses"].items():
        owner, _, status = label.rpartition("_")
        if owner == name:
            yield Failure(status, response["description"])


class ReferencePage:
    def __init__(self) -> None:
        self._document: dict[str, Any] = orjson.loads(document_bytes())
        self._style = asset("front.css") + asset("docs.css")
        self._headers = {
            "Content-Security-Policy": policy(self._style),
            "Cache-Control": "no-store",  # the page depends on the Host header
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }

    def response(self, address: str) -> Response:
        html = render_template(
            "docs.html",
            address=address,
            groups=tuple(_groups(self._document, address)),
            version=__version__,
            style=Markup(self._style),
            icon=Markup(asset("icon.svg").strip()),
        )
        return Response(html, content_type="text/html; charset=utf-8", headers=self._headers)
