"""Benchmarks of other distributions beside the paper's table: averages, intervals, whose policy it was, refusals."""

import json

import pytest
from analysis_examples import history, make_run
from typer.testing import CliRunner

from analysis import elsewhere, paper
from analysis.elsewhere import BenchmarkFileError, Part
from analysis.load import load
from analysis.systems import group
from rods.cli import app
from rods.evaluation.external import EXTERNAL
from rods.evaluation.statistics import wilson

TAU = ("tau2_retail", "tau2_airline", "tau2_telecom")
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def write(folder, suite, policy, *parts):
    """A file as `rods benchmark` writes it; `parts` are accuracy and count."""
    folder.mkdir(parents=True, exist_ok=True)
    body = {
        "suite": suite,
        "policy": str(policy),
        "version": "1",
        "commands": [],
        "parts": [
            {"name": f"part{index}", "accuracy": accuracy, "count": count}
            for index, (accuracy, count) in enumerate(parts)
        ],
    }
    file = folder / f"rods_{suite}.json"
    file.write_text(json.dumps(body))
    return file


def rows_of(paths, runs=()):
    systems = group([load(run) for run in runs])
    found = elsewhere.rows(elsewhere.read(paths, systems), systems, paper.load())
    return {(row.system, row.part): row for row in found}


def test_every_suite_of_the_command_belongs_to_a_benchmark_of_the_paper():
    assert sorted(suite for each in elsewhere.BENCHMARKS.values() for suite in each.suites) == sorted(
        EXTERNAL
    )


def test_the_papers_table():
    tables = paper.load()
    assert tables.find_elsewhere("rods_llama31_8b").tau2 == 25.0
    assert tables.untrained_elsewhere(LLAMA).bfcl_v4 == 7.05
    assert tables.find_elsewhere("rods_qwen4b") is None
    assert tables.untrained_elsewhere("Qwen/Qwen3-4B") is None


def test_one_part_has_wilsons_interval():
    found = elsewhere.estimate([[Part("a", 0.25, 40)]])
    assert (found.value, found.interval) == (0.25, pytest.approx(wilson(10, 40)))


def test_suites_weigh_the_same_whatever_their_parts_and_sizes():
    found = elsewhere.estimate([[Part("a", 0.2, 1000), Part("b", 0.4, 10)], [Part("c", 0.9, 10)]])
    assert found.value == pytest.approx((0.3 + 0.9) / 2)


def test_independent_parts_are_surer_together_than_each():
    alone, together = (elsewhere.estimate([[Part("a", 0.5, 40)]] * count).interval for count in (1, 4))
    assert together.high - together.low == pytest.approx((alone.high - alone.low) / 2)


def test_trials_of_one_task_do_not_count_as_tasks():
    assert elsewhere.estimate([[Part("a", 0.5, 160)]], trials=4).interval == wilson(20, 40)


def test_a_models_row_stands_beside_the_untrained_one(tmp_path):
    for suite in TAU:
        write(tmp_path, suite, LLAMA, (0.2, 160))
    ((key, row),) = rows_of([tmp_path]).items()
    assert key == (LLAMA, "τ²-bench")
    assert (row.ours, row.theirs, row.seeds) == (pytest.approx(20), 19.46, 1)
    assert row.low < 20 < row.high
    assert row.difference[0] == pytest.approx(0.54)


def test_policies_of_runs_are_systems_over_seeds(tmp_path):
    runs = [make_run(tmp_path, history(0.5), experiment="rods_llama31_8b", seed=seed) for seed in (1, 2, 3)]
    for index, run in enumerate(runs):
        write(
            run / "evaluations" / "ace", "acebench_agent", f"elsewhere/{run.name}/policy", (0.1 * index, 50)
        )
    row = rows_of([], runs)["rods_llama31_8b", "ACEBench Agent"]
    half = 4.30265 * 10 / 3**0.5
    assert (row.ours, row.seeds, row.theirs) == (pytest.approx(10), 3, 11.15)
    assert (row.low, row.high) == (pytest.approx(10 - half, abs=1e-3), pytest.approx(10 + half, abs=1e-3))


def test_a_benchmark_that_lacks_a_suite_says_so_and_has_no_difference(tmp_path):
    write(tmp_path, "tau2_retail", LLAMA, (0.2, 160))
    ((key, row),) = rows_of([tmp_path]).items()
    assert key == (LLAMA, "τ²-bench: tau2_retail only")
    assert (row.theirs, row.difference) == (None, None)


def test_a_suite_that_only_some_seeds_have_is_left_out(tmp_path):
    runs = [make_run(tmp_path, history(0.5), seed=seed) for seed in (1, 2)]
    write(tmp_path / "a", "acebench_agent", runs[0] / "policy", (0.5, 50))
    write(tmp_path / "b", "tau2_retail", runs[1] / "policy", (0.5, 50))
    assert rows_of([tmp_path / "a", tmp_path / "b"], runs) == {}


def test_a_file_that_is_named_and_found_counts_once(tmp_path):
    run = make_run(tmp_path, history(0.5))
    file = write(run / "evaluations" / "ace", "acebench_agent", run / "policy", (0.5, 50))
    assert rows_of([file], [run])["tiny", "ACEBench Agent"].seeds == 1


def test_two_results_of_one_policy_are_refused(tmp_path):
    paths = [write(tmp_path / name, "acebench_agent", LLAMA, (0.5, 50)) for name in ("a", "b")]
    with pytest.raises(BenchmarkFileError, match=f"acebench_agent of {LLAMA}: expected one result"):
        rows_of(paths)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", "[" * 100_000, '{"suite": "a", "policy": "b", "version": "1", "parts": []}']
    + [
        '{"suite": "a", "policy": "b", "version": "1", "parts": [{"name": "x", "accuracy": 1, "count": 1%s}]}'
        % (400 * "0")
    ]
    + [
        f'{{"suite": "a", "policy": "b", "version": "1", "parts": [{{"name": "x", "accuracy": {rate}, "count": 1}}]}}'
        for rate in ("1.5", "NaN", '"high"')
    ],
)
def test_another_file_is_refused_by_name(tmp_path, text):
    (tmp_path / "rods_x.json").write_text(text)
    with pytest.raises(BenchmarkFileError, match=r"rods_x\.json: expected a result of `rods benchmark`"):
        elsewhere.read([tmp_path])


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(BenchmarkFileError, match="found none"):
        elsewhere.read([tmp_path])
    with pytest.raises(BenchmarkFileError, match="found no such file"):
        elsewhere.read([tmp_path / "rods_x.json"])


def test_the_command_shows_the_table_and_leaves_it_out_without_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path, history(0.5))
    assert CliRunner().invoke(app, ["report", str(run)], catch_exceptions=False).exit_code == 0
    page = run / "report" / "study.html"
    assert "Out of distribution" not in page.read_text()
    write(tmp_path / "scores", "acebench_agent", run / "policy", (0.5, 50))
    CliRunner().invoke(app, ["report", str(run), "--benchmarks", "scores"], catch_exceptions=False)
    assert '<table id="elsewhere">' in page.read_text()
    assert "ACEBench Agent" in page.read_text()
