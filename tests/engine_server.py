"""A stand-in for vLLM's server: it speaks the calls that `rods.rollout.served_engine` makes, and misbehaves on demand.

Every message is token 9, token 9, the end token. Every log-probability is minus the first element of the output head
that was sent last (1.0 at first), so that it can be seen which weights a server holds.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

END = 2


class Server(ThreadingHTTPServer):
    """Serves on a free port of the loopback, or on the one given.

    Attributes:
        faults: of completions to come, one each: "500", "hang", "drop", "garbage", "other prompt", "400".
        calls: paths that were asked for, in order.
        head: what the log-probabilities come from.
        forgets: what /reset_prefix_cache reports.
        deaf: new weights are accepted and ignored.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int] = ("127.0.0.1", 0), die_after: int = -1) -> None:
        self.faults: list[str] = []
        self.calls: list[str] = []
        self.head = 1.0
        self.forgets = True
        self.deaf = False
        self.left = die_after
        self.models = ["policy"]
        super().__init__(address, Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Server:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self.reply({"data": [{"id": name} for name in self.server.models]})
        else:
            self.reply({}, 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}")
        self.server.calls.append(self.path)
        if self.path == "/v1/completions":
            self.complete(body)
        elif self.path == "/reset_prefix_cache":
            self.reply({"success": self.server.forgets})
        elif self.path == "/collective_rpc":
            files = sorted(Path(body["kwargs"]["weights_path"]).iterdir())
            heads = [load_file(file).get("lm_head.weight") for file in files]
            if not self.server.deaf:
                self.server.head = float(next(head for head in heads if head is not None).flat[0])
            self.reply({"results": [None]})
        else:
            self.reply({"status": "done"})

    def complete(self, body: dict[str, Any]) -> None:
        if self.server.left == 0:
            print("the stand-in dies", flush=True)
            os._exit(3)
        self.server.left -= 1
        fault = self.server.faults.pop(0) if self.server.faults else ""
        if fault == "drop":
            self.close_connection = True
            self.connection.close()
        elif fault in ("500", "400"):
            self.reply({"error": "EngineCore died"}, int(fault))
        elif fault == "garbage":
            self.reply({"choices": [{}]})
        else:
            if fault == "hang":
                time.sleep(3)
            self.reply({"choices": [self.choice(body, fault)]})

    def choice(self, body: dict[str, Any], fault: str) -> dict[str, Any]:
        tokens = body.get("allowed_token_ids") or [9, 9, END][: body["max_tokens"]]
        rows = [None, *({str(token): {"logprob": -self.server.head}} for token in body["prompt"][1:])]
        return {
            "token_ids": tokens,
            "prompt_token_ids": [*body["prompt"], 5] if fault == "other prompt" else body["prompt"],
            "logprobs": {"token_logprobs": [-self.server.head] * len(tokens)},
            "prompt_logprobs": rows if "prompt_logprobs" in body else None,
        }

    def reply(self, body: Any, status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def main() -> None:
    """As a process: takes vLLM's options, of which it knows three."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--served-model-name")
    parser.add_argument("--die-after", type=int, default=-1)
    chosen, others = parser.parse_known_args()
    print("started with", *others, flush=True)
    server = Server((chosen.host, chosen.port), chosen.die_after)
    server.models = [chosen.served_model_name]
    server.serve_forever()


if __name__ == "__main__":
    main()
