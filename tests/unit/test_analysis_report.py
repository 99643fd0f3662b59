"""The report against a small journal whose numbers are worked out by hand, and against hostile content."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
import yaml
from analysis_examples import evaluated, event

from analysis import figures, report, tables
from analysis.load import NothingToReportError, load
from rods.config import BoundaryConfig, Config, ModelConfig, RewardConfig, SynthesisConfig
from rods.exchange import stop
from rods.exchange.atomic import CorruptFileError
from rods.exchange.journal import JournalWriter
from rods.exchange.lineage import continuation
from rods.exchange.rundir import NotARunDirError, RunDir

HOSTILE = "<script>document.title='owned'</script>"


def seed(step, epoch, task, mean):
    return event(
        "seed_emitted",
        step,
        epoch,
        task_id=task,
        seed_id="a",
        type="base",
        mean=mean,
        phi=1.0,
        key=f"{step}-{task}",
    )


EVENTS = [
    event("run_started", 0, 0, fingerprint="f", seed=0),
    evaluated(0, 0, 0.5, "sampled"),
    evaluated(0, 0, 0.75),
    event("epoch_started", 0, 1, active=2),
    event("group_observed", 1, 1, task_id="a", rewards=[0.0, 1.0]),
    event("group_observed", 1, 1, task_id="b", rewards=[1.0, 1.0]),
    seed(1, 1, "a", 0.5),
    event(
        "variant_arrived",
        1,
        1,
        task_id="a~1",
        seed_id="a",
        type="base",
        kind="view",
        key="1-a",
        index=0,
        content_id="x",
    ),
    event("variant_refused", 1, 1, task_id="a~2", key="1-a", reason="duplicate_content"),
    event("seed_closed", 1, 1, key="1-a", outcome="published", reason=""),
    event("epoch_finished", 1, 1),
    event("variant_injected", 1, 2, task_id="a~1"),
    event("epoch_started", 1, 2, active=3),
    event("group_observed", 2, 2, task_id="a~1", rewards=[0.0, 0.25]),
    event("group_observed", 2, 2, task_id="b", rewards=[1.0, 0.5]),
    seed(2, 2, "b", 0.75),
    event("task_retired", 2, 2, task_id="a~1", reason="burn_in", mean=0.125),
    event("seed_closed", 2, 2, key="2-b", outcome="dropped", reason=HOSTILE),
    event("epoch_finished", 2, 2),
    evaluated(2, 2, 0.6, "sampled"),
    evaluated(2, 2, 0.8),
    event("run_finished", 2, 2),
]


def make_run(tmp_path, events, **sections):
    run = RunDir.create(tmp_path, "report", "0" * 64)
    config = Config(boundary=BoundaryConfig(), **sections).to_dict()
    config["launch"]["mode"] = str(config["launch"]["mode"])
    config["training"]["adam_betas"] = list(config["training"]["adam_betas"])
    config["cluster"]["setup"] = list(config["cluster"]["setup"])
    run.config_file.write_text(yaml.safe_dump(config))
    with JournalWriter(run.journal_file("train", 1), fsync="never") as journal:
        for record in [continuation(0), *events]:
            journal.append(record)
    return run.path


@pytest.fixture
def run_dir(tmp_path):
    return make_run(tmp_path, EVENTS)


def test_the_funnel_counts_every_stage(run_dir):
    funnel = tables.funnel(load(run_dir))
    assert funnel == tables.Funnel(
        seeds_emitted=2,
        seeds_published=1,
        seeds_dropped=1,
        seeds_expired=0,
        seeds_open=0,
        variants_arrived=1,
        variants_waiting=0,
        variants_refused={"duplicate_content": 1},
        variants_injected=1,
        variants_sampled=1,
        variants_retired={"burn_in": 1},
    )


def test_zones_pool_and_variance(run_dir):
    data = load(run_dir)
    assert tables.zones_by_epoch(data) == {
        1: {"hard": 0, "boundary": 1, "mastered": 1},
        2: {"hard": 1, "boundary": 1, "mastered": 0},
    }
    assert tables.pool_by_epoch(data) == [tables.PoolRow(1, 2, 0, 0), tables.PoolRow(2, 2, 1, 0)]
    variance = {row.zone: (row.groups, row.variance) for row in tables.variance_by_zone(data)}
    assert variance["boundary"] == (2, pytest.approx((0.25 + 0.0625) / 2))
    assert variance["mastered"] == (1, 0.0)
    assert variance["hard"] == (1, pytest.approx(0.015625))


def test_a_variants_way_from_seed_to_end(run_dir):
    (chain,) = tables.chains(load(run_dir))
    assert chain == tables.Chain("a~1", "a", 1, 1, 0.5, 1, 2, 2, 0.125, "retired in epoch 2: burn_in")
    assert tables.first_means(load(run_dir)) == [0.125]


def test_the_band_of_a_zone_includes_its_ends(tmp_path):
    means = {"low": [0.2, 0.2], "high": [0.85, 0.85], "under": [0.1, 0.2], "over": [0.9, 0.85]}
    groups = [event("group_observed", 1, 1, task_id=name, rewards=rewards) for name, rewards in means.items()]
    data = load(make_run(tmp_path, groups))
    assert [group.zone for group in data.groups] == ["boundary", "boundary", "hard", "mastered"]


def test_the_page_is_self_contained_and_holds_the_numbers(run_dir):
    paths = report.build(run_dir)
    page = paths.html.read_text()
    own = {"reward.png", "zones.png", "pool.png", "variance.png"}
    assert {plot.name for plot in paths.plots} == own | {"headline_sampled.png", "headline_greedy.png"}
    assert all(plot.read_bytes().startswith(b"\x89PNG") for plot in paths.plots)
    assert page.count("data:image/png;base64,") == 6
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    for text in ("temperature 1", "greedy", "0.800", "duplicate_content 1", "burn_in 1", "a~1"):
        assert text in page


def test_a_format_reward_above_one_has_room_in_the_figure(tmp_path):
    observed = event("group_observed", 1, 1, task_id="a", rewards=[2.0, 1.5])
    events = [EVENTS[0], EVENTS[3], observed, evaluated(1, 1, 0.5)]
    run = make_run(tmp_path, events, reward=RewardConfig("format"), synthesis=SynthesisConfig(enabled=False))
    (axes,) = figures.reward_by_step(load(run)).axes
    assert axes.get_ylim() == (0, 2)
    assert report.build(run).html.exists()


def test_an_evaluation_has_its_error_over_tasks(run_dir):
    first, *_ = tables.evaluations(load(run_dir))
    assert first.scores == {"h1": 1.0, "h2": 1 / 3, "h3": 1 / 3, "h4": 1 / 3}
    assert first.error == pytest.approx((3 * (1 / 6) ** 2 + 0.5**2) ** 0.5 / 3**0.5 / 2)
    assert (first.mean, first.accuracy) == (0.5, 0.25)
    page = report.build(run_dir).html.read_text()
    assert '<td class="n">0.500</td><td class="n">0.167</td><td class="n">0.250</td>' in page


def test_validation_is_not_held_out_and_is_shown_apart(tmp_path):
    other = evaluated(1, 1, 0.5) | {"split": "validation"}
    run = make_run(tmp_path, [*EVENTS[:5], other])
    data = load(run)
    assert [point.step for point in tables.evaluations(data)] == [0, 0]
    assert [point.step for point in tables.evaluations(data, tables.VALIDATION)] == [1]
    (legend,) = figures.reward_by_step(data).legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels[2:] == ["held-out, temperature 1", "held-out, greedy", "validation, greedy"]
    assert "<td>validation</td><td>1</td>" in report.build(run).html.read_text()


def test_a_variant_that_comes_back_is_active_again_and_one_that_waits_is_not(tmp_path):
    events = [
        *EVENTS[:-2],
        event("task_readmitted", 2, 3, task_id="a~1"),
        event("variant_arrived", 2, 2, task_id="b~1", seed_id="b", type="base", kind="", key="2-b", index=0),
        event("epoch_started", 2, 3, active=3),
    ]
    data = load(make_run(tmp_path, events))
    assert tables.pool_by_epoch(data)[-1] == tables.PoolRow(3, 2, 1, 1)
    assert tables.funnel(data).variants_waiting == 1
    (axes,) = figures.pool_by_origin(data).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()][-1] == "variants that wait"


def test_the_card_of_the_start_is_shown_as_a_page_and_runs_nothing(tmp_path):
    folder = make_run(tmp_path, EVENTS, model=ModelConfig(path="shipped/tiny"))
    card = RunDir.open(folder).code / "rods" / "assets" / "tiny" / "README.md"
    card.parent.mkdir(parents=True)
    card.write_text(
        "# Tiny\n\n| kind | greedy |\n|---|---|\n| view | 0.71 |\n\n<script>x</script> [here](javascript:x)\n"
    )
    page = report.build(folder).html.read_text()
    assert "<td>view</td>\n<td>0.71</td>" in page
    assert "<script" not in page
    assert 'href="javascript' not in page


def test_text_from_a_run_is_escaped(tmp_path):
    events = [
        *EVENTS[:7],
        event(
            "variant_arrived",
            1,
            1,
            task_id=HOSTILE,
            seed_id="a",
            type="base",
            kind="",
            key="1-a",
            index=0,
            content_id="x",
        ),
        event("variant_refused", 1, 1, task_id="a~2", key="1-a", reason=HOSTILE),
        event("epoch_finished", 1, 1),
        event("variant_injected", 1, 2, task_id=HOSTILE),
        event("epoch_started", 1, 2, active=3),
        event("group_observed", 2, 2, task_id=HOSTILE, rewards=[0.0, 0.25]),
    ]
    page = report.build(make_run(tmp_path, events, model=ModelConfig(path=HOSTILE))).html.read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_a_run_without_synthesis_or_evaluation_has_a_report(tmp_path):
    events = [EVENTS[0], EVENTS[3], EVENTS[4], EVENTS[5]]
    page = report.build(make_run(tmp_path, events, synthesis=SynthesisConfig(enabled=False))).html.read_text()
    assert "This run evaluated nothing" in page
    assert "No variant has been trained on" in page
    assert "not finished" in page


def test_nothing_to_report_yet(tmp_path):
    with pytest.raises(NothingToReportError, match="not journaled"):
        load(make_run(tmp_path, []))


WHY = "the role train exited with 1; the run was stopped\n  CUDA <out> of memory"


def failed(path):
    """Record in a run directory that its attempt failed."""
    run = RunDir.open(path)
    outcome = {"status": "failed", "exit_code": 1, "sentence": WHY}
    (run.attempt_dir(run.next_attempt()) / "outcome.json").write_text(json.dumps(outcome))
    return path


def test_a_failed_run_says_why(tmp_path):
    run = failed(make_run(tmp_path / "a", EVENTS[:4]))
    page = report.build(run).html.read_text()
    assert "<b>failed</b>" in page
    assert WHY.replace("<out>", "&lt;out&gt;") in page
    with pytest.raises(NothingToReportError, match="CUDA <out> of memory"):
        load(failed(make_run(tmp_path / "b", [])))
    RunDir.open(run).next_attempt()  # it goes on
    assert "CUDA" not in report.build(run).html.read_text()


def test_a_run_that_finished_although_an_attempt_failed_is_finished(tmp_path):
    run = failed(make_run(tmp_path, EVENTS))
    stop.finish(RunDir.open(run), 1)
    assert load(run).failure == ""


@pytest.mark.parametrize("text", ["[]", "null", '{"status": "failed"}'])
def test_a_damaged_record_of_the_end_is_named(tmp_path, text):
    run = failed(make_run(tmp_path, EVENTS))
    (run / "attempts" / "0001" / "outcome.json").write_text(text)
    with pytest.raises(CorruptFileError, match=r"outcome\.json: expected how the attempt ended"):
        load(run)


def test_not_a_run_directory(tmp_path):
    with pytest.raises(NotARunDirError):
        report.build(tmp_path)


class _Text(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tables = []

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.tables.append(dict(attrs).get("id"))


@pytest.mark.skipif(
    shutil.which("chromium") is None, reason="chromium is not installed (make test installs it)"
)
def test_a_browser_renders_the_page(run_dir, tmp_path):
    html = report.build(run_dir).html
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
    flags += " --disable-background-networking --disable-component-update"
    done = subprocess.run(
        ["chromium", *flags.split(), f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", html.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    parser = _Text()
    parser.feed(done.stdout)
    assert {"evaluations", "funnel", "chains"} <= set(parser.tables)
