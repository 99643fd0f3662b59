"""Runs are grouped into systems whose names tell them apart, and what sets systems apart besides the method is said."""

import re

import pytest
import yaml
from analysis_examples import evaluation, history, make_run
from typer.testing import CliRunner

from analysis import comparison_figures, comparisons, mixtures, paper, study, study_figures, system_names
from analysis.load import load
from analysis.systems import MixedRunsError, group
from rods.cli import app


def changed(run, **sections):
    """The run with other settings: section__key=value."""
    config = yaml.safe_load((run / "config.yaml").read_text())
    for name, value in sections.items():
        section, key = name.split("__")
        config.setdefault(section, {})[key] = value
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    return run


def made(folder, *settings, **which):
    """A run for each of these settings, all of seed 1."""
    return [changed(make_run(folder, history(0.5), **which), **each) for each in settings]


def names(paths):
    return [system.name for system in group([load(path) for path in paths])]


def scored(paths):
    return comparisons.score(group([load(path) for path in paths]))


def test_seeds_are_inside_and_settings_that_differ_are_named(tmp_path):
    paths = [
        *(make_run(tmp_path, history(0.5), seed=seed) for seed in (2, 1)),
        make_run(tmp_path, history(0.5), capacity=50),
        make_run(tmp_path, history(0.5), ablation="random_seeds"),
    ]
    whole, small, ablation = group([load(path) for path in paths])
    assert (whole.name, list(whole.runs)) == ("tiny (buffer.capacity=400)", [1, 2])
    assert small.name == "tiny (buffer.capacity=50)"
    assert ablation.name == "tiny + random_seeds"


def test_one_seed_twice_is_refused(tmp_path):
    with pytest.raises(MixedRunsError, match="both with seed 1"):
        group([load(path) for path in made(tmp_path, {}, {})])


def test_the_setting_that_tells_two_systems_apart_is_named_before_those_that_do_not(tmp_path):
    same = {"boundary__alpha_high": 0.8, "boundary__max_seeds": 2, "buffer__burn_in": 3}
    first, second, third = names(
        made(tmp_path, {}, {**same, "training__epochs": 7}, {**same, "training__epochs": 9})
    )
    assert first.startswith("tiny (training.epochs=5, boundary.alpha_high=0.85, ")
    assert second == "tiny (training.epochs=7, boundary.alpha_high=0.8, boundary.max_seeds=2, 1 more)"
    assert third == second.replace("epochs=7", "epochs=9")


def test_all_settings_that_it_takes_are_named(tmp_path):
    keys = ("boundary__max_seeds", "buffer__burn_in", "buffer__stale_epochs", "training__epochs")
    found = names(made(tmp_path, {}, *({key: 99} for key in keys)))
    assert len(set(found)) == 5
    assert (
        found[4]
        == "tiny (boundary.max_seeds=16, buffer.burn_in=1, buffer.stale_epochs=3, training.epochs=99)"
    )


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (("a" * 30, "b" * 30), ("a" * 23 + "…", "b" * 23 + "…")),
        (
            ("/data/of/this/study/start_1", "/data/of/this/study/start_2"),
            ("…a/of/this/study/start_1", "…a/of/this/study/start_2"),
        ),
        (
            ("x" * 30 + "1" + "y" * 30, "x" * 30 + "2" + "y" * 30),
            ("x" * 30 + "1" + "y" * 30, "x" * 30 + "2" + "y" * 30),
        ),
    ],
)
def test_values_that_begin_alike_are_shown_where_they_differ(tmp_path, values, shown):
    found = names(made(tmp_path, *({"model__path": value} for value in values)))
    assert found == [f"tiny (model.path={text})" for text in shown]


def test_a_name_of_texts_of_several_lines_stands_in_one():
    prompts = (
        "be short\nand good",
        "be short\nand kind",
        "x" * 40 + "\na" + "y" * 40,
        "x" * 40 + "\nb" + "y" * 40,
    )
    found = system_names.names([{"experiment": "tiny", "model.system_prompt": text} for text in prompts])
    assert found[0] == "tiny (model.system_prompt=be short↵and good)"
    assert len(set(found)) == 4
    assert not any("\n" in name for name in found)


def test_settings_of_another_version_are_named_only_where_nothing_else_differs(tmp_path):
    plain, newer, other = made(tmp_path, {}, {"added__later": True}, {"model__dtype": "bfloat16"})
    assert names([plain, newer]) == ["tiny", "tiny (added.later=True)"]
    found = names([plain, newer, other])
    assert found == [
        "tiny (model.dtype=float32)",
        "tiny (model.dtype=float32, added.later=True)",
        "tiny (model.dtype=bfloat16)",
    ]


def test_every_sweep_has_names_of_its_own():
    sweep = [{"experiment": "e", "a": str(a), "b": str(b), "c": "1"} for a in range(3) for b in range(3)]
    assert system_names.names(sweep)[:2] == ["e (a=0, b=0)", "e (a=0, b=1)"]
    assert len(set(system_names.names(sweep))) == 9
    assert system_names.names([]) == []


def test_a_label_of_a_plot_is_whole_and_in_short_lines():
    assert study_figures.plain("a$b") == r"a\$b"
    name = "rods_tiny (training.epochs=1, rollout.engine=hf, tasks.heldout_count=4, 3 more)"
    lines = study_figures.plain(name).split("\n")
    assert " ".join(lines) == name
    assert max(map(len, lines)) <= 44
    assert study_figures.plain("x" * 99).replace("\n", "") == "x" * 99


def test_ablations_of_one_name_are_told_apart_in_the_figure(tmp_path):
    whole = made(tmp_path, {}, {"buffer__capacity": 50})
    ablated = made(tmp_path, {}, {"buffer__capacity": 50}, ablation="random_seeds")
    rows = comparisons.ablations(scored([*whole, *ablated]), paper.load())
    labels = comparison_figures.ablations([row for row in rows if "greedy" in row.measure]).axes[0]
    texts = [label.get_text() for label in labels.get_yticklabels()]
    assert len(set(texts)) == len(texts) == 2


def test_a_curve_over_p_max_holds_systems_that_differ_in_nothing_else(tmp_path):
    paths = made(
        tmp_path,
        *({"buffer__capacity": size, "training__epochs": epochs} for size in (0, 50) for epochs in (3, 5)),
        {"buffer__capacity": 100, "training__epochs": 9},
    )
    curves = comparisons.capacities(scored(paths))
    assert [name.split(":")[0] for name in curves] == ["tiny (training.epochs=3)", "tiny (training.epochs=5)"]
    assert [list(curve) for curve in curves.values()] == [[0, 50], [0, 50]]


def test_systems_of_one_kind_are_not_said_to_be_mixed(tmp_path):
    assert mixtures.told(scored(made(tmp_path, {}, {"training__epochs": 9}))) == []


def test_other_models_and_tasks_are_said(tmp_path):
    tasks = {"tasks__train_count": 600}
    model, other = mixtures.told(scored(made(tmp_path, {}, tasks, {**tasks, "model__path": "else"})))
    assert model.startswith("Different models to start from: shipped/tiny (2 systems), else (1 system).")
    assert other.startswith("Different settings of the tasks: tasks.train_count 4 or 600.")


def heldout(*tasks):
    """A history whose last evaluation is on these tasks."""
    return [*history(0.5)[:-1], evaluation(5, 2, "greedy", 0.5, dict.fromkeys(tasks, 0.5))]


def test_scores_of_other_tasks_are_said_with_how_many(tmp_path):
    paths = [
        make_run(tmp_path, heldout("h1", "h2", "h3"), capacity=50),
        make_run(tmp_path, heldout("h1", "new"), capacity=60),
    ]
    (sentence,) = mixtures.told(scored(paths))
    assert sentence.startswith(
        "Scored on different tasks: 3 tasks (1 system), 2 tasks (1 system); 1 in common ("
    )
    assert "held-out reward, greedy, held-out accuracy, greedy" in sentence


def cells(page, table):
    """The text of a table's cells, by row."""
    rows = page.split(f'id="{table}"')[1].split("</table>")[0].split("<tr>")[2:]
    return [[re.sub("<[^>]+>", " ", f"<{cell}").strip() for cell in row.split("<td")[1:]] for row in rows]


def test_an_interval_over_tasks_says_how_many_and_why_there_is_none(tmp_path):
    ours = load(make_run(tmp_path, heldout("h1", "h2", "h3")))
    for other, told, count in (
        (("h1", "h3"), "+0.000 … +0.000", "2"),
        (("x",), "none: no task in common", "0"),
    ):
        theirs = load(make_run(tmp_path, heldout(*other), experiment="other"))
        page = study.render(study.gather("x", [ours], [theirs]), [])
        row = cells(page, "against")[0]
        assert row[-3:-1] == [told, count]
        assert cells(page, "systems")[0][2] == "0.500  3 tasks"


def test_the_command_says_what_is_mixed_where_it_is_seen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = made(tmp_path, {}, {"tasks__train_count": 600})
    done = CliRunner().invoke(app, ["report", *map(str, paths)], catch_exceptions=False)
    assert "warning: Different settings of the tasks: tasks.train_count 4 or 600." in done.stderr
    assert "tasks.train_count 4 or 600" in (tmp_path / "study" / "study.html").read_text()
    assert CliRunner().invoke(app, ["report", str(paths[0])], catch_exceptions=False).stderr == ""
