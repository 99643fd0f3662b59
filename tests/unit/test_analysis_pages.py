"""A run's report leads to the study pages that hold it, and shows the study's curves beside its own."""

import json

import pytest
from analysis_examples import evaluated, event, history, make_run
from typer.testing import CliRunner

from analysis import headline, links, report
from analysis.headline import HeadlineError
from analysis.links import Link, LinksError
from analysis.load import load
from rods.cli import app

HOSTILE = "<script>x</script>"


def curves(folder, *arms):
    """A headline file with these arms, each a name and its mean at 0 and 100 rollouts."""
    body = {
        "page": "docs/study.md",
        "commit": "abc1234",
        "tasks": 240,
        "group": "rollouts trained on",
        "arms": [
            {
                "arm": name,
                "title": name.upper(),
                "seeds": 5,
                "points": [
                    {
                        "trajectories": at,
                        "sampled": [mean, mean - 0.1, mean + 0.1],
                        "greedy": [mean, None, None],
                    }
                    for at, mean in ((0, first), (100, last))
                ],
            }
            for name, first, last in arms
        ],
    }
    file = folder / "headline.json"
    file.write_text(json.dumps(body))
    return file


def index_of(run):
    return (run / "report" / "index.html").read_text()


def test_each_runs_report_leads_to_a_study_of_several(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = [make_run(tmp_path / "runs", history(0.5), seed=seed) for seed in (1, 2)]
    report.build(runs[0])
    assert 'id="pages"' not in index_of(runs[0])
    (runs[1] / "attempts" / "0001").mkdir()
    outcome = {"status": "failed", "exit_code": 1, "sentence": "the role train exited with 1"}
    (runs[1] / "attempts" / "0001" / "outcome.json").write_text(json.dumps(outcome))
    arguments = ["report", *map(str, runs), "--out", "compared"]
    shown = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert shown.exit_code == 0
    assert f"warning: {runs[1].name} failed: the role train exited with 1\n" in shown.stderr
    assert 'href="../../../compared/study.html"' in index_of(runs[0])
    # A run without a report gets the link with its first one.
    assert not (runs[1] / "report" / "index.html").exists()
    report.build(runs[1])
    assert 'href="../../../compared/study.html"' in index_of(runs[1])


def test_a_run_compared_with_references_leads_to_its_own_pages_and_to_the_comparison(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ours, theirs = (make_run(tmp_path / "runs", history(0.5), experiment=name) for name in ("a", "b"))
    CliRunner().invoke(app, ["report", str(ours)], catch_exceptions=False)
    CliRunner().invoke(app, ["report", str(ours), "--against", str(theirs)], catch_exceptions=False)
    assert 'href="trajectories.html#task=a~1"' in index_of(ours)
    found = [link.href for link in links.found(ours / "report")]
    assert found == ["study.html", "trajectories.html", "../../../study/study.html"]


def test_a_page_that_is_gone_is_not_linked(tmp_path):
    page = tmp_path / "study.html"
    page.touch()
    folder = tmp_path / "run" / "report"
    links.note(folder, "one", page)
    links.note(folder, "two", tmp_path / "other.html")
    assert links.found(folder) == [Link("one: several runs side by side", "../../study.html")]


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 1}'])
def test_a_damaged_note_of_pages_is_named(tmp_path, text):
    (tmp_path / "studies.json").write_text(text)
    with pytest.raises(LinksError, match=r"studies\.json: expected the study pages"):
        links.found(tmp_path)


def test_titles_of_pages_are_text(tmp_path):
    run = make_run(tmp_path, history(0.5))
    page = tmp_path / "study.html"
    page.touch()
    links.note(run / "report", HOSTILE, page)
    report.build(run)
    assert "<script" not in index_of(run)
    assert "&lt;script&gt;" in index_of(run)


def test_a_run_of_the_studys_world_stands_beside_its_curves(tmp_path, monkeypatch):
    study = headline.load(curves(tmp_path, ("static", 0.3, 0.4), ("rods", 0.3, 0.5)))
    monkeypatch.setattr(headline, "load", lambda: study)
    run = make_run(tmp_path, history(0.75))
    made = report.build(run)
    own = {run / "report" / f"headline_{mode}.png" for mode in ("greedy", "sampled")}
    assert own <= set(made.plots)
    page = index_of(run)
    assert '<h2 id="beside">' in page
    for text in ("docs/study.md", "abc1234", "240 held-out"):
        assert text in page


def test_the_curves_are_the_studys_and_this_runs_over_rollouts(tmp_path):
    study = headline.load(curves(tmp_path, ("static", 0.3, 0.4), ("zero_variance", 0.3, 0.5)))
    events = [
        evaluated(0, 0, 0.25),
        event("group_observed", 1, 1, task_id="a", rewards=[0.0, 1.0]),
        event("group_observed", 1, 1, task_id="b", rewards=[1.0, 0.8]),
        evaluated(1, 1, 0.5),
        event("group_observed", 2, 1, task_id="a", rewards=[1.0, 0.8, 0.2]),
        evaluated(2, 1, 0.75),
    ]
    run = load(make_run(tmp_path, events))
    (greedy,), (sampled,) = (headline.figure(study, run, mode).axes for mode in ("greedy", "sampled"))
    static, zero_variance, own = greedy.get_lines()
    assert list(static.get_xdata()) == [0, 100]
    assert list(zero_variance.get_ydata()) == [0.3, 0.5]
    assert (list(own.get_xdata()), list(own.get_ydata())) == ([0, 4, 7], [0.25, 0.5, 0.75])
    assert len(greedy.collections) == 0  # one seed has no interval
    assert len(sampled.collections) == 1  # of the static pool; RODS is not in the study
    assert list(sampled.get_lines()[-1].get_xdata()) == []


def test_a_run_of_another_world_does_not(tmp_path):
    config = load(make_run(tmp_path, history(0.5))).config
    assert headline.comparable(config)
    assert not headline.comparable(config | {"tasks": config["tasks"] | {"source": "bfcl"}})
    assert not headline.comparable(config | {"model": config["model"] | {"path": "Qwen/Qwen3-4B"}})


def test_without_a_study_there_is_no_section(tmp_path, monkeypatch):
    assert headline.load(tmp_path / "headline.json") is None
    assert headline.load(curves(tmp_path)) is None
    monkeypatch.setattr(headline, "load", lambda: None)
    run = make_run(tmp_path, history(0.5))
    report.build(run)
    assert 'id="beside"' not in index_of(run)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"page": "a", "commit": "b", "tasks": 1, "arms": [{"arm": "x"}]}']
)
def test_a_file_without_the_studys_curves_is_named(tmp_path, text):
    (tmp_path / "headline.json").write_text(text)
    with pytest.raises(HeadlineError, match=r"headline\.json: expected the study's curves"):
        headline.load(tmp_path / "headline.json")
