"""An MCP server written with the official SDK, which serves both eras of the protocol: a process of its own.

official_mcp_server.py PORT [--json] [--stateless] [--older]

`--older` refuses the newer era as servers do that do not know it.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
from typing import Annotated, Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel, Field
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(64)).decode()
server = MCPServer("library", instructions="A library of the tests.")
cancelled: list[str] = []


class Book(BaseModel):
    title: str
    pages: int


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def search(query: str, limit: int = 3) -> str:
    """Search the library."""
    return f"{limit} results for {query}"


@server.tool()
def book(title: str) -> Book:
    """One book."""
    return Book(title=title, pages=len(title))


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ValueError("the shelf is empty")


@server.tool()
async def count(upto: int, ctx: Context[Any, Any]) -> str:
    """Counts, and says how far it is."""
    for number in range(upto):
        await ctx.report_progress(number + 1, upto, f"at {number + 1}")
    return f"counted to {upto}"


@server.tool()
async def sleep(seconds: float) -> str:
    """Sleeps."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        cancelled.append("sleep")
        raise
    return "awake"


@server.tool()
def was_cancelled() -> str:
    """Which calls were cancelled."""
    return ",".join(cancelled)


@server.tool()
def everything() -> CallToolResult:
    """Content of every kind."""
    note = TextResourceContents(uri="note://1", mime_type="text/plain", text="remember")
    return CallToolResult(
        content=[
            TextContent(type="text", text="first"),
            ImageContent(type="image", data=PNG, mime_type="image/png"),
            AudioContent(type="audio", data=PNG, mime_type="audio/strange"),
            EmbeddedResource(type="resource", resource=note),
            ResourceLink(type="resource_link", name="more", uri="https://library.example/more"),
        ]
    )


@server.tool()
def routed(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})], query: str) -> str:
    """A tool whose argument proxies read in a header."""
    return f"{query} in {region}"


@server.tool()
def whoami(ctx: Context[Any, Any]) -> str:
    """The credentials that the call came with."""
    headers = ctx.headers or {}
    return f"authorization {headers.get('authorization', 'none')}"


@server.tool()
async def ask(ctx: Context[Any, Any]) -> str:
    """Asks the person at the client."""
    answer = await ctx.elicit("Which shelf?", Book)
    return answer.action


@server.tool()
async def grow(ctx: Context[Any, Any]) -> str:
    """Adds a tool to the server."""
    name = f"grown_{os.urandom(2).hex()}"
    server.add_tool(lambda: name, name=name, description="A tool that was not there before.")
    await ctx.session.send_tool_list_changed()
    return name


async def refuse_newer_era(request: Request, call_next: RequestResponseEndpoint) -> Response:
    if request.headers.get("mcp-protocol-version") == "2026-07-28":
        return PlainTextResponse("Bad Request: Missing session ID", 400)
    return await call_next(request)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--stateless", action="store_true")
    parser.add_argument("--older", action="store_true")
    options = parser.parse_args()
    app = server.streamable_http_app(json_response=options.json, stateless_http=options.stateless)
    if options.older:
        app.add_middleware(BaseHTTPMiddleware, dispatch=refuse_newer_era)
    uvicorn.run(app, host="127.0.0.1", port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
