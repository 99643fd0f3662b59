"""Suites with command lines of their own: commands, scores of the documented form, and what is said when one lacks.

The suites themselves are not run: a stand-in for an environment's Python writes their files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import random_policy

from rods.evaluation.external import EXTERNAL, ExternalError, Target, first_line, get, rewards
from rods.roles.benchmark import Order, benchmark

TARGET = Target(
    "Qwen/Qwen3-4B-Instruct-2507-FC", "served", "http://host:8000/v1", "key", "tokenizer", "gpt-4.1"
)
# Answers the question for the version, and otherwise writes the file that the suite would.
STAND_IN = """#!{python}
import json, os, sys
if sys.argv[1] == "-c":
    print("1.2.3") if {installed} else sys.exit("no such distribution")
    sys.exit()
if {fails}:
    sys.exit("the suite broke")
if "generate" in sys.argv[2:]:
    sys.exit()
path = {path!r}
os.makedirs(os.path.dirname(path), exist_ok=True)
open(path, "w").write({text!r})
"""


@pytest.fixture
def policy(tmp_path: Path) -> str:
    return str(random_policy.save(tmp_path / "policy"))


def stand_in(tmp_path: Path, path: Path, text: str, *, installed: bool = True, fails: bool = False) -> str:
    """An environment's Python."""
    script = tmp_path / "python"
    script.write_text(
        STAND_IN.format(python=sys.executable, installed=installed, fails=fails, path=str(path), text=text)
    )
    script.chmod(0o755)
    return str(script)


def order(suite: str, policy: str, python: str, folder: Path, **more: str) -> Order:
    """An order for a server that runs."""
    return Order(suite, policy, python, folder, url="http://127.0.0.1:9/v1", **more)


def test_each_suite_gets_the_policy_the_server_and_the_key(tmp_path: Path) -> None:
    for suite in EXTERNAL.values():
        words = [word for command in suite.commands(TARGET, tmp_path) for word in command]
        variables = suite.variables(TARGET, tmp_path)
        assert any(name in words for name in (TARGET.name, f"hosted_vllm/{TARGET.served}")), suite.name
        assert any(TARGET.url in text for text in (*words, *variables.values())), suite.name
        assert TARGET.key in variables.values(), suite.name
        assert TARGET.key not in words, suite.name  # command lines can be read by others


def test_bfcl_asks_the_server_by_the_folder_that_it_serves(tmp_path: Path) -> None:
    here = Target("Qwen/Qwen3-4B-Instruct-2507-FC", str(tmp_path), "", "", "")
    generate, _ = get("bfcl_v4_memory").commands(here, tmp_path)
    assert generate[-2:] == ["--local-model-path", str(tmp_path)]
    assert "--local-model-path" not in get("bfcl_v4_memory").commands(TARGET, tmp_path)[0]


def test_bfcls_scores_are_read_by_category(tmp_path: Path) -> None:
    folder = tmp_path / "score" / "Qwen_Qwen3-4B-Instruct-2507-FC" / "agentic" / "memory"
    folder.mkdir(parents=True)
    for place, backend in enumerate(("kv", "vector", "rec_sum")):
        head = {"accuracy": place / 4, "correct_count": place, "total_count": 155}
        text = json.dumps(head) + "\n" + json.dumps({"id": "memory_1", "valid": False}) + "\n"
        (folder / f"BFCL_v4_memory_{backend}_score.json").write_text(text)
    parts = get("bfcl_v4_memory").scores(TARGET, tmp_path)
    assert {part.name: (part.accuracy, part.count) for part in parts} == {
        "memory_kv": (0.0, 155),
        "memory_vector": (0.25, 155),
        "memory_rec_sum": (0.5, 155),
    }
    with pytest.raises(ExternalError, match=r"BFCL_v4_web_search.*found none"):
        get("bfcl_v4_web_search").scores(TARGET, tmp_path)


def test_acebenchs_end_to_end_accuracy_is_its_score(tmp_path: Path) -> None:
    folder = tmp_path / "score_all" / "score_en" / "mine"
    folder.mkdir(parents=True)
    head = {"end_to_end_accuracy": 0.1, "process_accuracy": 0.4, "correct_count": 3, "total_count": 30}
    (folder / "data_agent_multi_turn_score.json").write_text(json.dumps(head) + "\n")
    (part,) = get("acebench_agent").scores(Target("mine", "", "", "", ""), tmp_path)
    assert (part.name, part.accuracy, part.count) == ("agent_multi_turn", 0.1, 30)


def test_tau2s_score_is_the_mean_reward_of_all_trials(tmp_path: Path) -> None:
    suite = get("tau2_retail")
    file = Path(suite.variables(TARGET, tmp_path)["TAU2_DATA_DIR"]) / "simulations/rods_retail/results.json"
    assert file.is_relative_to(tmp_path / "data")  # where the repository has its domains
    file.parent.mkdir(parents=True)
    values = (1.0, 0.0, 0.0, 1.0, 1.0)
    file.write_text(json.dumps({"simulations": [{"reward_info": {"reward": value}} for value in values]}))
    (part,) = suite.scores(TARGET, tmp_path)
    assert (part.accuracy, part.count) == (0.6, 5)


@pytest.mark.parametrize(
    "text", ["", "no json", "[]", '{"accuracy": 0.5}', '{"accuracy": 55, "total_count": 3}']
)
def test_a_score_file_of_another_form_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "score.json"
    file.write_text(text)
    with pytest.raises(ExternalError, match=r"score\.json: expected an object with accuracy"):
        first_line(file, "accuracy", "total_count")


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"simulations": []}', '{"simulations": [{"reward_info": null}]}', '{"simulations": 3}'],
)
def test_a_tau2_file_of_another_form_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "results.json"
    file.write_text(text)
    with pytest.raises(ExternalError, match=r"results\.json: expected simulations"):
        rewards(file)


def test_a_benchmark_is_run_scored_and_recorded(tmp_path: Path, policy: str) -> None:
    folder = tmp_path / "out"
    path = folder.absolute() / "score" / "mine" / "agentic" / "BFCL_v4_memory_kv_score.json"
    python = stand_in(tmp_path, path, '{"accuracy": 0.5, "correct_count": 2, "total_count": 4}')
    found = benchmark(order("bfcl_v4_memory", policy, python, folder, name="mine"))
    assert found["parts"] == [{"name": "memory_kv", "accuracy": 0.5, "count": 4}]
    assert found["version"] == "1.2.3"
    assert found["commands"][0][-1] == policy
    assert [command[2] for command in found["commands"]] == ["generate", "evaluate"]
    assert json.loads((folder / "rods_bfcl_v4_memory.json").read_text()) == found


def test_a_suite_that_fails_says_why(tmp_path: Path, policy: str) -> None:
    python = stand_in(tmp_path, tmp_path / "x", "", fails=True)
    with pytest.raises(ExternalError, match=r"ended with status 1(.|\n)*the suite broke"):
        benchmark(order("bfcl_v4_memory", policy, python, tmp_path / "out", name="mine"))


def test_what_is_missing_is_said_before_anything_is_run(
    tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SERPAPI_API_KEY", raising=False)
    python = stand_in(tmp_path, tmp_path / "x", "", installed=False)
    for suite, words, more in (
        ("bfcl_v9", "expected one of bfcl_v4_web_search", {}),
        ("bfcl_v4_web_search", "needs SERPAPI_API_KEY", {}),
        ("bfcl_v4_memory", "expected bfcl-eval to be installed", {}),
        ("tau2_retail", "needs --user", {}),
        ("tau2_retail", "found no data/tau2/domains/retail", {"user": "gpt-4.1"}),
        ("acebench_agent", "found no generate.py, eval_main.py", {}),
    ):
        with pytest.raises(ExternalError, match=words):
            benchmark(order(suite, policy, python, tmp_path / "out", **more))
    with pytest.raises(ExternalError, match="found no such program"):
        benchmark(order("bfcl_v4_memory", policy, str(tmp_path / "nothing"), tmp_path / "out"))
    assert not (tmp_path / "out").exists()
