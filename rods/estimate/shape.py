"""The numbers of a transformer that memory and time follow from.

Read from a Hugging Face folder where there is one; for the models of the paper they are known without their
files, since an estimate is made on a laptop before anything is downloaded.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rods.errors import RodsError
from rods.model_path import resolve


class UnknownShapeError(RodsError):
    """A model of which neither the files nor the numbers are at hand."""


@dataclass(frozen=True)
class Shape:
    """A decoder with grouped-query attention and a gated MLP (Qwen2, Qwen3, Llama).

    Attributes:
        hidden: width of the residual stream.
        heads, kv_heads, head_size: of the attention.
        inner: width of the MLP.
        tied: the output head is the embedding.
        bias: query, key and value projections have one (Qwen2).
        head_norm: queries and keys are normalised (Qwen3).
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    inner: int
    vocabulary: int
    tied: bool
    bias: bool = False
    head_norm: bool = False

    @property
    def query_width(self) -> int:
        """All heads side by side."""
        return self.heads * self.head_size

    @property
    def kv_width(self) -> int:
        """All key (or value) heads side by side."""
        return self.kv_heads * self.head_size

    @property
    def parameters(self) -> int:
        """Weights in all, a tied head counted once."""
        return self.layers * self._layer() + self.embeddings + self.hidden

    @property
    def embeddings(self) -> int:
        """Weights of the embedding, and of the output head where it is one of its own."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    @property
    def kv_per_token(self) -> int:
        """Numbers that the KV cache holds for one token."""
        return 2 * self.layers * self.kv_width

    def _layer(self) -> int:
        attention = 2 * self.hidden * (self.query_width + self.kv_width)
        biases = self.query_width + 2 * self.kv_width if self.bias else 0
        norms = 2 * self.hidden + (2 * self.head_size if self.head_norm else 0)
        return attention + biases + norms + 3 * self.hidden * self.inner


# From the config.json files that their makers publish.
KNOWN = {
    "Qwen3-4B": Shape(36, 2560, 32, 8, 128, 9728, 151936, True, head_norm=True),
    "Qwen3-8B": Shape(36, 4096, 32, 8, 128, 12288, 151936, False, head_norm=True),
    "Qwen3-32B": Shape(64, 5120, 64, 8, 128, 25600, 151936, False, head_norm=True),
    "Qwen2.5-7B": Shape(28, 3584, 28, 4, 128, 18944, 152064, False, bias=True),
    "Llama-3.1-8B": Shape(32, 4096, 32, 8, 128, 14336, 128256, False),
    "SmolLM2-135M": Shape(30, 576, 9, 3, 64, 1536, 49152, True),
}


def of_model(path: str) -> Shape:
    """The shape of `model.path`.

    Raises:
        UnknownShapeError: no files here, and not a model in `KNOWN`.
    """
    folder = Path(resolve(path))
    if (folder / "config.json").is_file():
        return from_config(json.loads((folder / "config.json").read_text()), path)
    matches = [shape for name, shape in KNOWN.items() if name.lower() in path.lower()]
    if not matches:
        raise UnknownShapeError(
            f"model.path = {path!r}: expected a folder with a config.json, or a name with one of "
            f"{', '.join(KNOWN)} in it; download the model's config.json and give its folder"
        )
    return matches[0]


def from_config(config: dict[str, Any], path: str) -> Shape:
    """The shape in a Hugging Face `config.json`.

    Raises:
        UnknownShapeError: it is no decoder of this family (mixture of experts included).
    """
    family = str(config.get("model_type", ""))
    if family not in ("qwen2", "qwen3", "llama"):
        raise UnknownShapeError(
            f"model.path = {path!r}: expected a model_type of qwen2, qwen3 or llama, found {family!r}; "
            "the formulas hold for these only"
        )
    heads = config["num_attention_heads"]
    return Shape(
        layers=config["num_hidden_layers"],
        hidden=config["hidden_size"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_size=config.get("head_dim") or config["hidden_size"] // heads,
        inner=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        tied=bool(config.get("tie_word_embeddings", False)),
        bias=family == "qwen2",
        head_norm=family == "qwen3",
    )
