"""A small MCP server on stdin and stdout without the SDK: starts at once, and misbehaves when asked to.

`python mcp_fake_server.py [PARTS]`: a counter, a slow tool, a crash, a tool that never answers twice alike.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

TOOLS = {
    "read": ("The counter.", {}, True),
    "add": ("Add to the counter.", {"amount": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}, False),
    "refuse": ("Fail, and say so.", {}, False),
    "where": (
        "The server's folder, and whether a path is a file or shorter than it.",
        {"path": {"type": "string"}},
        True,
    ),
    "random": ("Another answer in every process.", {}, False),
    "sleep": ("Answer too late.", {}, False),
    "crash": ("End the process.", {}, False),
}
count = 0


def call(name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
    """The text of a result and whether it is an error."""
    global count
    if name == "add":
        count += arguments.get("amount") or 1
    elif name == "refuse":
        return "refused", True
    elif name == "where":
        path = arguments["path"]
        return f"{os.getcwd()} {path} {os.path.isfile(path)} {len(path) < len(os.getcwd())}", False
    elif name == "random":
        return str(os.getpid()), False
    elif name == "sleep":
        time.sleep(600)
    elif name == "crash":
        os._exit(3)
    return str(count), False


def answer(method: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None for a method that this server does not have."""
    if method == "initialize":
        return {
            "protocolVersion": parameters["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "fake", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [_tool(name, *TOOLS[name]) for name in TOOLS]}
    if method == "tools/call":
        text, failed = call(parameters["name"], parameters.get("arguments") or {})
        return {"content": [{"type": "text", "text": text}], "isError": failed}
    return None


def _tool(name: str, description: str, properties: dict[str, Any], read_only: bool) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties}
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": {"readOnlyHint": read_only},
    }


def main() -> None:
    """Serve until stdin closes."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(request["method"], request.get("params") or {})
        error = {"error": {"code": -32601, "message": "no such method"}}
        reply = {"jsonrpc": "2.0", "id": request["id"], **({"result": result} if result else error)}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
