"""JSON-RPC messages, and who they are for. No IO."""

from __future__ import annotations

from typing import Any

import orjson

from bridge.agents.mcp.errors import McpError, RpcError
from bridge.gemini.types import JsonObject

METHOD_NOT_FOUND = -32601
UNSUPPORTED_VERSION = -32022


def request(number: int, method: str, params: JsonObject) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def notification(method: str, params: JsonObject | None = None) -> bytes:
    fields = {"jsonrpc": "2.0", "method": method}
    return orjson.dumps(fields if params is None else {**fields, "params": params})


def answer(number: Any, result: JsonObject) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": number, "result": result})


def refusal(number: Any, method: str) -> bytes:
    error = {"code": METHOD_NOT_FOUND, "message": f"this client does not support {method}"}
    return orjson.dumps({"jsonrpc": "2.0", "id": number, "error": error})


def parse(payload: bytes, server: str) -> JsonObject:
    try:
        message = orjson.loads(payload)
    except orjson.JSONDecodeError:
        raise McpError(f"{server} sent something that is not JSON.") from None
    if not isinstance(message, dict):
        raise McpError(f"{server} sent JSON that is not one message of JSON-RPC.")
    return message


def result_in(message: JsonObject, number: int, server: str) -> JsonObject:
    """The result in the response to request `number`. Raises RpcError if the response is an error."""
    failed = isinstance(message.get("error"), dict)
    if not _is_for(message, number, failed):
        raise McpError(f"{server} answered another request than the one that was sent.")
    if failed:
        raise rpc_error(message["error"])
    if not isinstance(message.get("result"), dict):
        raise McpError(f"{server} sent a response without a result.")
    result: JsonObject = message["result"]
    return result


def _is_for(message: JsonObject, number: int, failed: bool) -> bool:
    """An error may come without an id: the server could not read the request."""
    answered = message.get("id")
    return (type(answered) is int and answered == number) or (failed and answered is None)


def rpc_error(error: JsonObject) -> RpcError:
    code, text = error.get("code"), error.get("message")
    return RpcError(
        code if type(code) is int else 0,
        text if isinstance(text, str) and text else "the server gave no reason",
        error.get("data"),
    )
