"""docs/study.md out of summaries: complete or not, of one piece or not, and the same bytes each time."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from study_examples import TASKS, summary

from analysis.seeds import summary as over_seeds
from benchmarks.study import page
from benchmarks.study import summary as summaries
from benchmarks.study.__main__ import main
from benchmarks.study.arms import ARMS
from benchmarks.study.page import EmptyStudyError
from benchmarks.study.summary import Overlap, Summary


@pytest.fixture
def unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take seconds, and only some tests look at them."""
    monkeypatch.setattr(page, "draw", lambda told, tried, folder, without: [])


def kept(folder: Path, runs: list[Summary]) -> Path:
    for run in runs:
        summaries.write(folder, run)
    return folder


def today(seeds: tuple[int, ...]) -> page.Identities:
    return {(arm.name, seed): summary(arm.name, seed).identity for arm in ARMS for seed in seeds}


def built(folder: Path, runs: list[Summary], seeds: tuple[int, ...] = (0, 1)) -> str:
    results = kept(folder / "results", runs)
    (folder / "docs").mkdir(exist_ok=True)
    page.build(results, today(seeds), folder / "docs", folder / "headline.json")
    return (folder / "docs" / "study.md").read_text()


def whole() -> list[Summary]:
    return [
        summary(arm.name, seed, gain=0.2 + 0.02 * place + 0.01 * seed)
        for place, arm in enumerate(ARMS)
        if not arm.same_as
        for seed in (0, 1)
    ]


def test_a_complete_study_names_every_arm_and_misses_nothing(tmp_path: Path) -> None:
    text = built(tmp_path, whole())
    assert "Not complete" not in text
    for arm in ARMS:
        assert f"| {arm.title} |" in text
    for name in page.figures.MECHANISM:
        assert f"(study/{name}.svg)" in text
    linked = {part.split(")")[0] for part in text.split("](")[1:]}
    assert {path for path in linked if not (tmp_path / "docs" / path).is_file()} == set()


def test_an_arm_looks_alike_in_every_figure() -> None:
    systems, _ = page.split(page.group(whole()))
    pair = [each for each in systems if each.arm.name in ("static", "rods")]
    looks = [
        {line.get_label(): (line.get_color(), line.get_linestyle()) for line in figure.axes[0].lines}
        for figure in (page.figures.curves(systems), page.figures.curves(pair))
    ]
    assert len(looks[1]) == 2
    assert looks[1].items() <= looks[0].items()


@pytest.mark.usefixtures("unpainted")
def test_what_was_not_run_is_said(tmp_path: Path) -> None:
    runs = [summary("static", 0), summary("static", 1), summary("rods", 0, gain=0.4)]
    page_text = built(tmp_path, runs)
    assert [line for line in page_text.splitlines() if len(line) > 120 and not line.startswith("|")] == []
    text = " ".join(page_text.split())
    assert "**Not complete.**" in text
    assert "RODS (seed 1)" in text
    assert "RODS+ (seeds 0, 1)" in text
    assert "static pool (seed" not in text
    assert "Ablations" in text, "the ablation without synthesis has the static pool's runs"
    assert "RODS, static pool (seed" not in text


def test_a_study_without_ablations_or_rods_still_has_a_page(tmp_path: Path) -> None:
    text = built(tmp_path, [summary("static", 0), summary("uniform", 0)])
    assert "| uniform fresh synthesis |" in text
    assert "## Ablations" not in text


def test_the_twin_of_an_arm_has_its_runs(tmp_path: Path) -> None:
    told = page.group([summary("static", 0), summary("rods", 0)])
    by_name = {each.arm.name: each.runs for each in told}
    assert by_name["rods-static_pool"] == by_name["static"]


@pytest.mark.usefixtures("unpainted")
def test_an_ablation_that_changed_nothing_is_said_to_have(tmp_path: Path) -> None:
    runs = [summary("static"), summary("rods", 0), summary("rods", 1)]
    same, other = (summary("rods-blind_retry", seed, digest=f"journal of rods, {seed}") for seed in (1, 2))
    moved = summary("rods-random_seeds", 0, digest="journal of rods, 1")  # RODS's of another seed
    text = " ".join(built(tmp_path, [*runs, same, other, moved], (0, 1, 2)).split())
    assert (
        "by their journals: *RODS, blind retry* (seed 1). What is taken away there had changed nothing."
        in text
    )
    assert "by their journals" not in built(tmp_path / "b", [*runs, moved])


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("field", ["policy", "heldout", "training", "settings"])
def test_runs_of_another_world_or_policy_are_left_out_and_named(tmp_path: Path, field: str) -> None:
    odd = summary("rods", 1, gain=0.9)
    odd = msgspec.structs.replace(odd, identity=msgspec.structs.replace(odd.identity, **{field: "another"}))
    runs = [summary(arm, seed) for arm in ("static", "uniform", "rods") for seed in (0, 1, 2)]
    runs = [odd if (run.arm, run.seed) == ("rods", 1) else run for run in runs]
    unknown = msgspec.structs.replace(runs[0], arm="gone")
    assert page.consistent([unknown], today((0, 1, 2))) == ([], [unknown])
    good, left = page.consistent(runs, today((0, 1, 2)))
    assert left == [odd]
    assert len(good) == 8
    text = built(tmp_path, runs, (0, 1, 2))
    assert "rods seed 1" in text
    assert "RODS (seed 1)" in text


@pytest.mark.usefixtures("unpainted")
def test_an_arm_whose_settings_changed_is_left_out_with_all_its_runs(tmp_path: Path) -> None:
    runs = [summary(arm, seed) for arm in ("static", "rods") for seed in (0, 1, 2)]
    old = [
        msgspec.structs.replace(run, identity=msgspec.structs.replace(run.identity, settings="old"))
        for run in runs
    ]
    text = built(tmp_path / "a", [*runs[:3], *old[3:]], (0, 1, 2))
    assert "rods seed 0; rods seed 1; rods seed 2" in " ".join(text.split())
    assert "\n| RODS |" not in text
    with pytest.raises(EmptyStudyError, match="settings"):
        built(tmp_path / "b", [*old[:3], *runs[3:]], (0, 1, 2))


@pytest.mark.usefixtures("unpainted")
def test_the_start_is_scored_on_the_tasks_of_the_final_scores(tmp_path: Path) -> None:
    places = list(range(TASKS // 2))  # all that the start solves
    runs = [summary("static", 0), summary("rods", 0, overlap=Overlap(6, places, []))]
    text = built(tmp_path, runs, (0,))
    assert "The start policy's R_P: 0.000 at temperature 1, 0.000 greedy." in text
    trained = text.partition("## What was trained on")[2].partition("## ")[0]
    assert (
        "| static pool | 1 | 0.50 → 0.90 | 0.30 → 0.50 | +0.400 | +0.200 | +0.200 | 0.90 → 0.10 |" in trained
    )
    assert "| static pool | 1 | 2 | 192 | 3 | 9,600 |" in text
    rises = text.partition("## Less the start")[2].partition("## ")[0]
    assert "| static pool | 1 | +0.200 [+0.200, +0.200] | +0.100 [+0.100, +0.100] |" in rises


@pytest.mark.usefixtures("unpainted")
def test_seeds_that_are_not_asked_for_do_not_count(tmp_path: Path) -> None:
    runs = [summary("static", 0), summary("static", 100, gain=0.9)]
    assert built(tmp_path / "a", runs, (0,)) == built(tmp_path / "b", runs[:1], (0,))


@pytest.mark.usefixtures("unpainted")
def test_repeated_tasks_leave_the_scores_of_all(tmp_path: Path) -> None:
    places = list(range(TASKS // 2))
    run = summary("rods", 0, overlap=Overlap(6, [], places))
    text = built(tmp_path, [summary("static", 0, gain=0.2), run], (0,))
    assert f"repeat {TASKS // 2} of them" in text
    assert "| static pool | 1 | 0.200 |" in text


def test_where_variants_repeat_every_task_there_is_no_page(tmp_path: Path) -> None:
    half = TASKS // 2
    runs = [
        summary("static", 0),
        summary("rods", 0, overlap=Overlap(6, list(range(half)), [])),
        summary("rods", 1, overlap=Overlap(6, [], list(range(half, TASKS)))),
    ]
    with pytest.raises(EmptyStudyError, match=f"all {TASKS} repeated"):
        built(tmp_path, runs)
    assert not list((tmp_path / "docs").rglob("study*"))


def test_tasks_that_leave_the_tables_leave_the_figures_too(tmp_path: Path) -> None:
    said = {}
    for name, places in (("all", []), ("half", list(range(TASKS // 2)))):
        runs = [summary("static", 0, gain=0.1), summary("rods", 0, gain=0.3, overlap=Overlap(6, places, []))]
        built(tmp_path / name, runs, (0,))
        said[name] = (tmp_path / name / "docs" / "study" / "against_static.svg").read_text()
    assert said["all"] != said["half"]


def test_equal_summaries_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        built(tmp_path / name, [summary("static", 0), summary("rods", 0)])
    first, second = (sorted((tmp_path / name / "docs").rglob("*.*")) for name in ("a", "b"))
    assert [path.name for path in first] == [path.name for path in second]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.usefixtures("unpainted")
def test_the_headline_holds_the_systems_mean_curves(tmp_path: Path) -> None:
    built(tmp_path, whole())
    found = json.loads((tmp_path / "headline.json").read_text())
    assert [each["arm"] for each in found["arms"]] == [arm.name for arm in ARMS if not arm.ablation]
    first = found["arms"][0]
    assert (found["tasks"], first["seeds"]) == (TASKS, 2)
    assert [each["trajectories"] for each in first["points"]] == [0, 96, 192]
    expected = over_seeds([0.6, 0.61])
    mean, low, high = first["points"][-1]["sampled"]
    assert mean == pytest.approx(expected.mean)
    assert (high - low) / 2 == pytest.approx(expected.half, abs=1e-4)


@pytest.mark.usefixtures("unpainted")
def test_a_single_seed_has_no_interval_in_the_headline(tmp_path: Path) -> None:
    built(tmp_path, [summary("static", 0)])
    found = json.loads((tmp_path / "headline.json").read_text())
    assert found["arms"][0]["points"][0]["greedy"] == [0.5, None, None]


def test_without_the_static_pool_there_is_no_page(tmp_path: Path) -> None:
    with pytest.raises(EmptyStudyError, match="static pool"):
        built(tmp_path, [summary("rods", 0)])
    with pytest.raises(EmptyStudyError):
        built(tmp_path, [], (0,))


def test_the_command_says_in_one_line_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tables", "--results", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("study: ")
    with pytest.raises(SystemExit):
        main(["run", "--seeds", "one"])
