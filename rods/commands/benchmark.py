"""`rods benchmark`: a suite with a command line of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer


def benchmark(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE",
            help="bfcl_v4_web_search, bfcl_v4_memory, tau2_retail, tau2_airline, tau2_telecom or acebench_agent.",
        ),
    ],
    policy: Annotated[
        str, typer.Argument(metavar="POLICY", help="A Hugging Face folder (RUN/policy) or a cached model.")
    ],
    environment: Annotated[str, typer.Option(help="Python of the environment that has the suite.")],
    folder: Annotated[
        Path, typer.Option(help="For its files and the result; τ²-bench, ACEBench: their repository.")
    ],
    name: Annotated[
        str, typer.Option(help="The policy's name in the suite (BFCL: of its list of models).")
    ] = "",
    server: Annotated[
        str, typer.Option(help="http://HOST:PORT/v1 of one that runs; else one is started.")
    ] = "",
    user: Annotated[str, typer.Option(help="τ²-bench: the model that plays the user.")] = "",
) -> None:
    """Run BFCL V4, τ²-bench or ACEBench as published, in its own environment, and read its scores.

    The key of a running server is taken from VLLM_API_KEY. The result is printed, and kept as rods_SUITE.json in the
    folder.

    Example: rods benchmark tau2_retail runs/NAME/policy --environment ENV/bin/python --folder tau2-bench --user MODEL
    """
    from rods.roles.benchmark import Order, benchmark

    key = os.environ.get("VLLM_API_KEY", "EMPTY")
    order = Order(suite, policy, environment, folder, name, server, key, user)
    typer.echo(json.dumps(benchmark(order), indent=1, ensure_ascii=False))
