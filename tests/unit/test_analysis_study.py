"""Several runs side by side: grouped by what they are, compared over seeds and tasks, drawn, and written as a page."""

import re

import pytest
import yaml
from analysis_examples import evaluated, history, make_run, write_result
from typer.testing import CliRunner

from analysis import (
    comparison_figures,
    comparisons,
    mechanism,
    mechanism_figures,
    paper,
    report,
    study,
    study_figures,
)
from analysis.load import load
from analysis.scores import OFFICIAL, ScoreError, of_run
from analysis.systems import group
from rods.cli import app

HOSTILE = "<script>x</script>$\\frac$"
GREEDY = "held-out reward, greedy"


def runs_of(folder, scores, **which):
    return [make_run(folder, history(score), seed=seed, **which) for seed, score in scores.items()]


def scored(paths):
    return comparisons.score(group([load(path) for path in paths]))


def test_latency_is_counted_in_steps_from_detection(tmp_path):
    (path,) = runs_of(tmp_path, {1: 0.5})
    (found,) = mechanism.latencies(load(path))
    assert (found.synthesis, found.staging, found.waiting, found.total) == (1, 0, 3, 4)


def test_variance_at_the_boundary_over_the_rest(tmp_path):
    (path,) = runs_of(tmp_path, {1: 0.5})
    # at the boundary: a, a again, a~1; mastered: b twice
    inside, outside = (0.25 + 0 + 0.0625) / 3, (0.01 + 0) / 2
    assert mechanism.variance_ratio(load(path)) == pytest.approx(inside / outside)
    quiet = make_run(tmp_path, history(0.5)[:4])
    assert mechanism.variance_ratio(load(quiet)) is None


def test_failures_are_those_of_the_history_once(tmp_path):
    (path,) = runs_of(tmp_path, {1: 0.5})
    assert mechanism.failures(load(path)) == {"vm_exec_failed": 1}
    assert mechanism.refusals(load(path)) == {"duplicate_content": 1}
    assert mechanism.stage_of("vm_exec_failed") == "execute"
    assert mechanism.stage_of("new_kind") == ""


def test_every_kind_of_the_taxonomy_has_a_stage():
    from rods.synthesis.errors import FAILURES

    assert sorted(mechanism.KINDS) == sorted(FAILURES)


def test_the_funnel_sums_over_runs(tmp_path):
    counts = mechanism.funnel([load(path) for path in runs_of(tmp_path, {1: 0.5, 2: 0.5})])
    assert counts == {
        "seeds emitted": 2,
        "seeds answered": 2,
        "attempts failed": 2,
        "variants arrived": 2,
        "variants injected": 2,
        "variants trained on": 2,
        "variants retired": 2,
    }
    assert mechanism.retirements(load(runs_of(tmp_path, {3: 0.5})[0])) == {2: {"drift_mastered": 1}}


def test_the_last_evaluation_and_the_result_are_the_scores(tmp_path):
    (path,) = runs_of(tmp_path, {1: 0.75})
    write_result(path, {"t1": True, "t2": False})
    found = of_run(load(path))
    values = {name: score.value for name, score in found.items()}
    assert values == {GREEDY: 0.75, "held-out accuracy, greedy": 0.25, OFFICIAL: 0.5}


def test_the_finished_policy_counts_before_a_checkpoint_that_was_evaluated_later(tmp_path):
    (path,) = runs_of(tmp_path, {1: 0.75})
    write_result(path, {"t1": False}, step=10)
    write_result(path, {"t1": True, "t2": True, "t3": True, "t4": False}, step=20)
    write_result(path, {"t1": False}, step=5)
    assert of_run(load(path))[OFFICIAL].value == 0.75
    write_result(path, {"t1": True})
    write_result(path, {"t1": False}, step=30)
    assert of_run(load(path))[OFFICIAL].value == 1.0


@pytest.mark.parametrize("text", ["{}", "[]", "{", '{"suite": 1, "split": 2, "overall": {"accuracy": "x"}}'])
def test_a_result_that_is_none_is_refused_by_name(tmp_path, text):
    (path,) = runs_of(tmp_path, {1: 0.75})
    write_result(path, {"t1": True})
    (path / "evaluations" / "bfcl_v3-heldout-None" / "result.json").write_text(text)
    with pytest.raises(ScoreError, match=r"result\.json: expected a result of `rods evaluate`"):
        of_run(load(path))


def test_beside_the_paper_over_seeds(tmp_path):
    paths = runs_of(tmp_path, {1: 0.5, 2: 0.5, 3: 0.5}, experiment="rods_qwen4b")
    for path, passed in zip(paths, (5, 6, 7), strict=True):
        write_result(path, {f"t{index}": index < passed for index in range(10)})
    overall, base = comparisons.beside_paper(scored(paths), paper.load())
    half = 100 * 4.30265 * 0.1 / 3**0.5
    assert (overall.ours, overall.theirs, overall.seeds) == (pytest.approx(60), 56.0, 3)
    assert overall.difference == pytest.approx((4, 4 - half, 4 + half), abs=1e-3)
    assert (base.part, base.theirs) == ("base", 68.0)


def test_a_single_run_beside_the_paper_has_wilsons_interval(tmp_path):
    (path,) = runs_of(tmp_path, {1: 0.5}, experiment="rods_qwen4b")
    write_result(path, {f"t{index}": index < 5 for index in range(10)})
    row = comparisons.beside_paper(scored([path]), paper.load())[0]
    assert (row.low, row.high) == (pytest.approx(23.66, abs=0.01), pytest.approx(76.34, abs=0.01))


def test_a_system_that_the_paper_lacks_has_no_difference(tmp_path):
    (path,) = runs_of(tmp_path, {1: 0.5})
    write_result(path, {"t1": True})
    row = comparisons.beside_paper(scored([path]), paper.load())[0]
    assert (row.theirs, row.difference) == (None, None)


def test_a_model_that_was_only_evaluated_stands_beside_the_untrained_one(tmp_path):
    only = [event for event in history(0.5) if event["name"] in ("run_started", "run_finished")]
    run = make_run(tmp_path, [only[0], evaluated(0, 0, 0.5), only[1]], experiment="evaluate_only")
    settings = yaml.safe_load((run / "config.yaml").read_text())
    settings["evaluation"] |= {"enabled": True, "policy": "Qwen/Qwen3-4B-Instruct-2507"}
    (run / "config.yaml").write_text(yaml.safe_dump(settings))
    write_result(run, {"t1": True, "t2": False})
    overall, _ = comparisons.beside_paper(scored([run]), paper.load())
    assert (overall.ours, overall.theirs) == (50, 22.13)
    made = study.build(tmp_path / "out", [run])
    assert {path.stem for path in made.plots} == {"study_heldout"}
    assert report.build(run).plots == ()


def test_ablations_are_compared_over_common_seeds_and_tasks(tmp_path):
    whole = runs_of(tmp_path, {1: 0.5, 2: 0.6, 3: 0.7}, experiment="rods_qwen4b")
    ablation = runs_of(tmp_path, {1: 0.4, 2: 0.4, 3: 0.4}, experiment="rods_qwen4b", ablation="random_seeds")
    for path, verdict in [*((path, True) for path in whole), *((path, False) for path in ablation)]:
        write_result(path, {"t1": verdict, "t2": verdict})
    rows = {row.measure: row for row in comparisons.ablations(scored([*whole, *ablation]), paper.load())}
    assert rows[GREEDY].paired.mean == pytest.approx(-0.2)
    assert (rows[GREEDY].by_task.low, rows[GREEDY].by_task.high) == pytest.approx(
        (-0.2 * 4 / 3, -0.2 / 3), abs=0.2
    )
    assert (rows[OFFICIAL].by_task.low, rows[OFFICIAL].by_task.high) == (-1.0, -1.0)
    assert rows[OFFICIAL].paper == pytest.approx((51.25 - 56) / 100)
    assert not rows[GREEDY].few
    axes = comparison_figures.ablations(list(rows.values())).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["random_seeds"]


def test_an_ablation_belongs_to_the_whole_system_with_its_other_settings(tmp_path):
    small, large = (runs_of(tmp_path, {1: score}, capacity=size) for score, size in ((0.3, 50), (0.6, 400)))
    ablation = runs_of(tmp_path, {1: 0.5}, ablation="random_seeds")
    rows = comparisons.ablations(scored([*small, *large, *ablation]), paper.load())
    assert {row.reference.name for row in rows} == {"tiny (buffer.capacity=400)"}


def test_what_was_rejected_is_drawn_by_stage_and_kind(tmp_path):
    systems = group([load(path) for path in runs_of(tmp_path, {1: 0.5, 2: 0.5})])
    (axes,) = mechanism_figures.rejected(systems).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        "execute: vm_exec_failed",
        "trainer: duplicate_content",
    ]
    assert [bar.get_width() for bar in axes.patches] == [2, 2]
    quiet = group([load(make_run(tmp_path, history(0.5)[:4], seed=3))])
    assert mechanism_figures.rejected(quiet) is None
    assert mechanism_figures.funnel(quiet) is None


def test_new_variants_say_how_many_lie_in_the_zone(tmp_path):
    systems = group([load(path) for path in runs_of(tmp_path, {1: 0.5, 2: 0.5})])
    (axes,) = mechanism_figures.new_variants(systems).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["tiny\n100% of 2 in the zone"]


def test_latency_has_its_total_at_the_end(tmp_path):
    (axes,) = mechanism_figures.latency(group([load(path) for path in runs_of(tmp_path, {1: 0.5})])).axes
    assert [text.get_text() for text in axes.texts] == ["4.0"]


def test_variance_of_zones_stands_beside_its_ratio(tmp_path):
    systems = group([load(path) for path in runs_of(tmp_path, {1: 0.5})])
    (axes,) = mechanism_figures.variance(systems).axes
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([0, (0.25 + 0 + 0.0625) / 3, 0.005])
    assert [text.get_text() for text in axes.get_yticklabels()] == ["tiny\n× 20.83"]


def test_the_pool_shows_what_waits_and_what_retired(tmp_path):
    events = [event for event in history(0.5) if event["name"] != "variant_injected"]
    systems = group([load(make_run(tmp_path, events))])
    figure = study_figures.pool(systems)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "original seeds",
        "variants that wait",
        "retired",
    ]


def test_capacities_make_a_curve(tmp_path):
    paths = [
        path for size in (0, 50) for path in runs_of(tmp_path, {1: 0.5, 2: 0.5 + size / 100}, capacity=size)
    ]
    curves = comparisons.capacities(scored(paths))
    assert curves == {f"tiny: {GREEDY}": {0: {1: 0.5, 2: 0.5}, 50: {1: 0.5, 2: 1.0}}}
    assert comparison_figures.capacity(curves) is not None
    assert comparisons.capacities(scored(paths[:2])) == {}
    assert comparison_figures.capacity({}) is None


def test_bands_reach_from_the_lowest_seed_to_the_highest(tmp_path):
    systems = group([load(path) for path in runs_of(tmp_path, {1: 0.5, 2: 0.9})])
    (axes,) = study_figures.heldout_curves(systems).axes[:1]
    (line,) = axes.get_lines()
    assert list(line.get_ydata()) == pytest.approx([0.25, 0.7])
    (band,) = axes.collections
    heights = {round(float(y), 6) for x, y in band.get_paths()[0].vertices if x == 2}
    assert heights == {0.5, 0.9}


def test_the_band_of_one_seed_is_the_standard_error_over_its_tasks(tmp_path):
    figure = study_figures.heldout_curves(group([load(make_run(tmp_path, history(0.5)))]))
    _, band = figure.axes[0].collections
    heights = {round(float(y), 6) for x, y in band.get_paths()[0].vertices if x == 2}
    assert heights == {0.333333, 0.666667}  # of 1 and three times a third


@pytest.mark.parametrize("reward", [0.0, 0.5, 1.0])
def test_hardly_any_change_does_not_fill_the_axis(tmp_path, reward):
    run = make_run(tmp_path, [evaluated(1, 1, reward), evaluated(5, 2, reward)])
    low, high = study_figures.heldout_curves(group([load(run)])).axes[0].get_ylim()
    assert 0 <= low <= reward <= high
    assert high - low >= 0.25


def test_validation_has_a_figure_of_its_own_where_there_is_any(tmp_path):
    (path,) = runs_of(tmp_path, {1: 0.5})
    assert study_figures.validation_curves(group([load(path)])) is None
    checked = evaluated(5, 2, 0.75) | {"split": "validation"}
    events = [*history(0.5)[:-1], checked]
    (axes, _) = study_figures.validation_curves(group([load(make_run(tmp_path, events))])).axes
    assert list(axes.get_lines()[0].get_ydata()) == [0.75]


def test_a_curve_ends_where_the_first_of_its_runs_ends(tmp_path):
    short = make_run(tmp_path, history(0.5)[:7], seed=2)
    (system,) = group([load(path) for path in [*runs_of(tmp_path, {1: 0.5}), short]])
    (axes,) = study_figures.learning_curves([system]).axes
    assert list(axes.get_lines()[0].get_xdata()) == [1, 2]


def test_a_measure_that_some_seeds_lack_says_so(tmp_path):
    paths = runs_of(tmp_path, {1: 0.5, 2: 0.5})
    write_result(paths[0], {"t1": True})
    page = study.render(study.gather("x", [load(path) for path in paths], []), [])
    assert page.count("1.000 (1 of the seeds)") == 1
    assert page.count("of the seeds)") == 1


def test_few_seeds_and_unfinished_runs_are_warned_of(tmp_path):
    unfinished = make_run(tmp_path, history(0.5)[:-1])
    told = study.warnings(study.gather("x", [load(unfinished)], []))
    assert [re.match(r"Fewer than 3 seeds|Not finished", text)[0] for text in told] == [
        "Fewer than 3 seeds",
        "Not finished",
    ]
    two = [load(path) for path in runs_of(tmp_path, {1: 0.5, 2: 0.5})]
    assert study.warnings(study.gather("x", two, []))[0].startswith("Fewer than 3 seeds: tiny.")
    many = [load(path) for size in range(4) for path in runs_of(tmp_path, {1: 0.5}, capacity=size)]
    assert study.warnings(study.gather("x", many, []))[0].startswith("Fewer than 3 seeds: 4 of 4 systems.")
    enough = [load(path) for path in runs_of(tmp_path, {1: 0.5, 2: 0.5, 3: 0.5})]
    assert study.warnings(study.gather("x", enough, [])) == []


def test_the_page_is_self_contained_and_escaped(tmp_path):
    paths = [
        *runs_of(tmp_path, {1: 0.5}, experiment=HOSTILE),
        make_run(tmp_path, history(0.5, variant=HOSTILE), experiment=HOSTILE, capacity=50),
    ]
    role = {"hours": 1.0, "used": 8.0, "wasted": 0.5}
    account = {"run": HOSTILE, "source": "accounting", "roles": {"train": role}}
    made = study.build(tmp_path / "out", paths, costs=[account])
    page = made.html.read_text()
    assert "<script" not in page
    assert not re.search(r"(src|href)=\"(?!data:|trajectories\.html)", page)
    assert '<td class="n">8.00</td>' in page
    assert {path.suffix for path in made.plots} == {".png", ".svg"}
    assert "<script" not in "".join(path.read_text() for path in made.plots if path.suffix == ".svg")


def test_the_command_compares_with_references(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (ours,) = runs_of(tmp_path, {1: 0.75})
    (theirs,) = runs_of(tmp_path, {1: 0.5}, experiment="other")
    done = CliRunner().invoke(app, ["report", str(ours), "--against", str(theirs)], catch_exceptions=False)
    assert done.exit_code == 0
    page = (tmp_path / "study" / "study.html").read_text()
    assert 'id="against"' in page
    assert "+0.250" in page


def test_a_quoted_pattern_names_all_references(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (ours,) = runs_of(tmp_path, {1: 0.75})
    theirs = runs_of(tmp_path, {1: 0.5, 2: 0.25}, experiment="other")
    (tmp_path / "others").mkdir()
    for path in theirs:
        path.rename(tmp_path / "others" / path.name)
    done = CliRunner().invoke(app, ["report", str(ours), "--against", "others/*"], catch_exceptions=False)
    assert done.exit_code == 0
    assert '<td>other</td><td class="n">1, 2</td>' in (tmp_path / "study" / "study.html").read_text()
    done = CliRunner().invoke(app, ["report", str(ours), "--against", "nobody/*"])
    assert "--against nobody/*: expected paths of runs, found none" in str(done.exception)


def test_one_run_has_its_report_and_its_study_side_by_side(tmp_path):
    (ours,) = runs_of(tmp_path, {1: 0.75})
    done = CliRunner().invoke(app, ["report", str(ours)], catch_exceptions=False)
    pages = [f"{ours}/report/{name}.html" for name in ("index", "study", "trajectories")]
    drawn = list((ours / "report").glob("study_*"))
    assert drawn
    told = f"and {len(drawn)} figures of the study beside it, as PNG and SVG"
    assert done.stdout.splitlines() == [*pages, told]


def test_a_run_is_not_compared_with_itself(tmp_path):
    (ours,) = runs_of(tmp_path, {1: 0.75})
    done = CliRunner().invoke(app, ["report", str(ours), "--against", str(ours)])
    assert "expected other runs" in str(done.exception)


def test_runs_without_variants_or_evaluations_have_a_study(tmp_path):
    events = [each for each in history(0.5)[:5] if each["name"] != "evaluation_done"]
    made = study.build(tmp_path / "out", [make_run(tmp_path, events)])
    assert {path.stem for path in made.plots} == {
        "study_learning",
        "study_pool",
        "study_variance",
    }
