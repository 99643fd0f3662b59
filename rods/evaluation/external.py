"""Benchmarks with command lines of their own: what is run, what they need, and where their scores lie.

Each suite lives in an environment of its own, since their requirements contradict ours and each other. Here is only
what its documentation says: BFCL V4 (bfcl-eval 2026.3.23), τ²-bench 1.0.1, ACEBench (its repository).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rods.errors import RodsError


class ExternalError(RodsError):
    """A suite that is not there, lacks something, failed, or wrote other files than it documents."""


@dataclass(frozen=True)
class Target:
    """Who is tested, and where.

    Attributes:
        name: of the policy in the suite: for BFCL a name of its list of models, elsewhere the server's.
        served: the name under which the server serves the policy.
        url: of the OpenAI-compatible server, ends in /v1.
        key: that it asks for.
        tokenizer: folder of the policy's tokenizer.
        user: model that plays the user, as the suite names it; "" where no suite asks.
    """

    name: str
    served: str
    url: str
    key: str
    tokenizer: str
    user: str = ""


@dataclass(frozen=True)
class Part:
    """One score that a suite gives, in [0, 1], over `count` tasks (τ²-bench: conversations)."""

    name: str
    accuracy: float
    count: int


@dataclass(frozen=True)
class External:
    """A suite.

    Attributes:
        name: on the command line.
        distribution: whose version is recorded; also tells whether it is installed. "": run from its repository.
        keys: environment variables that it needs.
        commands: arguments after the environment's Python, one list a step.
        variables: environment of the commands.
        scores: reads what it wrote below its folder.
        files: that its folder, the suite's repository, must hold before it is run.
    """

    name: str
    distribution: str
    keys: tuple[str, ...]
    commands: Callable[[Target, Path], list[list[str]]]
    variables: Callable[[Target, Path], dict[str, str]]
    scores: Callable[[Target, Path], list[Part]]
    files: tuple[str, ...] = ()


def get(name: str) -> External:
    """The suite called `name`.

    Raises:
        ExternalError: there is none.
    """
    if name not in EXTERNAL:
        raise ExternalError(f"SUITE = {name}: expected one of {', '.join(EXTERNAL)}")
    return EXTERNAL[name]


def first_line(path: Path, score: str, count: str) -> tuple[float, int]:
    """Accuracy and count from the object in the first line of a score file.

    Raises:
        ExternalError: it does not hold them.
    """
    try:
        head = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
        return _rate(head[score]), int(head[count])
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise _unlike(path, f"an object with {score} and {count} in its first line", error) from error


def rewards(path: Path) -> Part:
    """Mean of τ²-bench's rewards over all conversations.

    Raises:
        ExternalError: the file holds something else, or no conversation.
    """
    try:
        found: Sequence[Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["simulations"]
        values = [_rate(each["reward_info"]["reward"]) for each in found]
        return Part("reward", sum(values) / len(values), len(values))
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise _unlike(path, "simulations[].reward_info.reward", error) from error


def _bfcl(category: str, keys: tuple[str, ...]) -> External:
    def commands(target: Target, folder: Path) -> list[list[str]]:
        chosen = ["--model", target.name, "--test-category", category]
        run = ["-m", "bfcl_eval"]
        # The server is asked for the model by this path; without it, by the name in BFCL's list.
        path = ["--local-model-path", target.served] if Path(target.served).is_dir() else []
        return [[*run, "generate", *chosen, "--skip-server-setup", *path], [*run, "evaluate", *chosen]]

    def variables(target: Target, folder: Path) -> dict[str, str]:
        return {
            "BFCL_PROJECT_ROOT": str(folder),
            "REMOTE_OPENAI_BASE_URL": target.url,
            "REMOTE_OPENAI_API_KEY": target.key,
            "REMOTE_OPENAI_TOKENIZER_PATH": target.tokenizer,
        }

    def scores(target: Target, folder: Path) -> list[Part]:
        root = folder / "score" / target.name.replace("/", "_")
        return list(_by_file(root, "BFCL_v4_", category, "_score.json", "accuracy", "total_count"))

    return External(f"bfcl_v4_{category}", "bfcl-eval", keys, commands, variables, scores)


def _tau2(domain: str) -> External:
    def commands(target: Target, folder: Path) -> list[list[str]]:
        models = ["--agent-llm", f"hosted_vllm/{target.served}", "--user-llm", target.user]
        where = ["--agent-llm-args", json.dumps({"api_base": target.url})]
        run = ["-c", "import tau2.cli; tau2.cli.main()", "run", "--domain", domain, *models, *where]
        return [[*run, "--num-trials", "4", "--save-to", f"rods_{domain}"]]

    def variables(target: Target, folder: Path) -> dict[str, str]:
        return {"HOSTED_VLLM_API_KEY": target.key, "TAU2_DATA_DIR": str(folder / "data")}

    def scores(target: Target, folder: Path) -> list[Part]:
        return [rewards(folder / "data" / "simulations" / f"rods_{domain}" / "results.json")]

    files = (f"data/tau2/domains/{domain}",)
    return External(f"tau2_{domain}", "tau2", (), commands, variables, scores, files)


def _acebench() -> External:
    def commands(target: Target, folder: Path) -> list[list[str]]:
        chosen = ["--model", target.name, "--category", "agent", "--language", "en"]
        return [["generate.py", *chosen], ["eval_main.py", *chosen]]

    def variables(target: Target, folder: Path) -> dict[str, str]:
        return {"OPENAI_BASE_URL": target.url, "OPENAI_API_KEY": target.key}

    def scores(target: Target, folder: Path) -> list[Part]:
        root = folder / "score_all" / "score_en" / target.name
        return list(_by_file(root, "data_", "agent", "_score.json", "end_to_end_accuracy", "total_count"))

    files = ("generate.py", "eval_main.py")
    return External("acebench_agent", "", (), commands, variables, scores, files)


def _by_file(root: Path, before: str, category: str, after: str, score: str, count: str) -> Iterator[Part]:
    paths = sorted(root.rglob(f"{before}{category}*{after}"))
    if not paths:
        raise ExternalError(
            f"{root}: expected score files {before}{category}…{after}, found none; see the suite's log"
        )
    for path in paths:
        accuracy, total = first_line(path, score, count)
        yield Part(path.name.removeprefix(before).removesuffix(after), accuracy, total)


def _rate(value: Any) -> float:
    rate = float(value)
    if not 0 <= rate <= 1:
        raise ValueError(f"{value} is no share in [0, 1]")
    return rate


def _unlike(path: Path, expected: str, error: Exception) -> ExternalError:
    return ExternalError(
        f"{path}: expected {expected}, as the suite documents; found something else ({type(error).__name__}: {error})"
    )


EXTERNAL = {
    suite.name: suite
    for suite in (
        _bfcl("web_search", ("SERPAPI_API_KEY",)),
        _bfcl("memory", ()),
        *(_tau2(domain) for domain in ("retail", "airline", "telecom")),
        _acebench(),
    )
}
