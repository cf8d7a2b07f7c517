"""A small MCP server on standard input and output: it adds two numbers."""

import json
import sys

TOOL = {
    "name": "add_numbers",
    "description": "Adds two numbers",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}


def result_of(method: str, params: dict) -> dict:
    if method == "initialize":
        server = {"name": "calculator", "version": "1"}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": server,
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        total = params["arguments"]["a"] + params["arguments"]["b"]
        return {"content": [{"type": "text", "text": f"sum={total}"}]}
    return {}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        answer = {
            "jsonrpc": "2.0",
            "id": asked["id"],
            "result": result_of(asked["method"], asked.get("params", {})),
        }
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
