"""`rods estimate` against memory as measured on CPUs: `python -m benchmarks.estimate --json`.

For each model of random weights a fresh process builds the real learner, makes one update, and reads from the
kernel how far its resident memory rose above what it was when everything was imported. The figure is the estimate;
its peer is the measurement; a ratio above 1 means that the estimate is on the safe side.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

from rods.config import Config, ModelConfig, TrainingConfig
from rods.estimate import memory
from rods.estimate.hardware import GIB
from rods.estimate.memory import Load
from rods.estimate.shape import from_config

MODELS = {
    # name: layers, hidden, heads, key-value heads, inner, vocabulary
    "11m": (6, 256, 8, 4, 768, 16384),
    "40m": (8, 512, 8, 4, 1536, 32768),
    "135m": (30, 576, 9, 3, 1536, 49152),
}
TOKENS, LENGTH = 4096, 256  # of the micro-batch, of each of its sequences; half of them sampled
TRAINING = TrainingConfig(micro_batch_tokens=TOKENS, zero_stage=0, threads=1, warmup_fraction=0.0)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--measure", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(_measure(Path(options.measure))))
        return
    figures = {f"memory_{name}": _figure(numbers) for name, numbers in MODELS.items()}
    if options.json:
        print(json.dumps(figures, indent=1))
    else:
        for name, figure in figures.items():
            print(f"{name}: estimated {figure['ours']} GiB, measured {figure['peer']} GiB")


def _figure(numbers: tuple[int, ...]) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder), numbers)
        shape = from_config(json.loads((Path(folder) / "config.json").read_text()), folder)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.estimate", "--measure", folder],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    config = dataclasses.replace(Config(), model=ModelConfig(dtype="float32"), training=TRAINING)
    estimated = memory.estimate(shape, config, Load(1, TOKENS, TOKENS // 2, False)).learner
    measured = json.loads(done.stdout.splitlines()[-1])
    return {
        "ours": round(estimated / GIB, 3),
        "peer": round(measured / GIB, 3),
        "peer_name": "resident memory of one update, measured",
        "unit": "GiB",
        "ratio": round(estimated / measured, 3),
    }


def make_model(folder: Path, numbers: tuple[int, ...]) -> None:
    """Write a model of random weights, of the sizes that `MODELS` lists, into `folder`."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    layers, hidden, heads, kv_heads, inner, vocabulary = numbers
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=hidden // heads,
        tie_word_embeddings=True,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)


def _measure(folder: Path) -> int:
    """Bytes by which one update raises this process's resident memory at its height."""
    import torch

    from rods.training import distributed
    from rods.training.learner import Learner

    distributed.start()
    vocabulary = json.loads((folder / "config.json").read_text())["vocab_size"]
    count = TOKENS // LENGTH
    rollouts = [
        SimpleNamespace(
            token_ids=torch.randint(vocabulary, (LENGTH,)).tolist(),
            mask=[0, 1] * (LENGTH // 2),
            logprobs=[0.0, -9.0] * (LENGTH // 2),
        )
        for _ in range(count)
    ]
    before = _resident("VmRSS")
    learner = Learner(folder, ModelConfig(dtype="float32"), TRAINING, 10, seed=0)
    for _ in range(2):  # moments are made by the first optimizer step, and needed by the second
        learner.update(rollouts, [1.0, -1.0] * (count // 2))
    return _resident("VmHWM") - before


def _resident(name: str) -> int:
    """A size from /proc/self/status in bytes."""
    status = Path("/proc/self/status").read_text()
    found = re.search(rf"{name}:\s+(\d+) kB", status)
    assert found is not None, f"no {name} in /proc/self/status: not Linux?"
    return int(found.group(1)) * 1024


if __name__ == "__main__":
    main()
