"""The trajectory browser: what reaches the page, hostile text, and the page at work in a browser."""

import json
import re
import shutil
import subprocess

import pytest
from analysis_examples import history, make_run, rollout
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from analysis import study, trajectories
from analysis.load import load
from analysis.trajectories import TokenizerError
from rods.exchange.atomic import CorruptFileError

OWNED = "document.title='owned'"
HOSTILE = f'</script><script>{OWNED}</script><!--<script><img src=x onerror="{OWNED}">\u2028&amp;'
CHAT = "<|im_start|>user\nGo.<|im_end|>\n<|im_start|>assistant\n{text}<|im_end|>"

browser = pytest.mark.skipif(
    shutil.which("chromium") is None, reason="chromium is not installed (make test installs it)"
)


def page_of(folder, lines, **how):
    return trajectories.render("title", [load(make_run(folder, history(0.5), rollouts=lines))], **how)


def embedded(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def in_browser(html, profile, script="", fragment=""):
    """The page's DOM after `script` ran in it, and what the browser complained of."""
    page = html.read_text()
    if script:
        # The page lets only its own script run, so a test's needs a page without that rule.
        page = re.sub(r"<meta http-equiv=[^>]*>", "", page).replace(
            "</body>", f"<script>{script}</script></body>"
        )
        html = html.with_name("driven.html")
        html.write_text(page)
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync --enable-logging=stderr"
    flags += " --disable-background-networking --disable-component-update --v=0"
    done = subprocess.run(
        ["chromium", *flags.split(), f"--user-data-dir={profile}", "--dump-dom", html.as_uri() + fragment],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_an_episode_has_its_groups_zone_and_its_tasks_type(tmp_path):
    (one, other) = embedded(page_of(tmp_path, [rollout("a"), rollout("elsewhere")]))
    assert (one["zone"], one["mean"], one["type"], one["step"]) == ("boundary", 0.5, "base", 1)
    assert (other["zone"], other["mean"], other["type"]) == ("unknown", None, "unknown")
    assert (one["tokens"], one["mask"]) == (None, None)


def evaluated(run, name, *lines):
    folder = run / "evaluations" / name
    folder.mkdir(parents=True)
    (folder / "trajectories.jsonl").write_text("".join(lines))


def played(task, progress, verdicts):
    """A line as `rods evaluate` writes it."""
    facts = {"task_id": task, "type": "miss_func", "kind": "view", "passed": False, "progress": progress}
    shape = {"turns": 2, "verdicts": verdicts, "codes": [-1], "faults": [], "finish": "length", "text": "hi"}
    return json.dumps(facts | shape | {"token_ids": [3], "mask": [1]}) + "\n"


def test_episodes_of_evaluations_follow_those_of_training(tmp_path):
    run = make_run(tmp_path, history(0.5), rollouts=[rollout("a")])
    line = played("h1", 0.5, [[True, True, True], [True, False, True], [False, False, False]])
    evaluated(run, "bfcl_v3-heldout-1", line, line[:20])
    trained, tested = trajectories.episodes(load(run))
    assert (trained["set"], tested["set"]) == ("training", "bfcl_v3-heldout-1")
    assert (tested["task"], tested["type"], tested["zone"], tested["reward"]) == (
        "h1",
        "miss_func",
        "none",
        0.5,
    )
    assert tested["turns"] == [True, False, True]
    assert (tested["step"], tested["tokens"], tested["mask"]) == (None, ["[3]"], [1])


def test_tokens_are_text_where_the_tokenizer_is_at_hand(tmp_path):
    path = make_run(tmp_path, history(0.5), rollouts=[rollout(token_ids=[0, 1, 7], mask=[0, 1, 1])])
    (plain,) = trajectories.episodes(load(path))
    assert plain["tokens"] == ["[0]", "[1]", "[7]"]
    (path / "policy").mkdir()
    Tokenizer(WordLevel({"go": 0, "on": 1}, unk_token="go")).save(str(path / "policy" / "tokenizer.json"))
    (read,) = trajectories.episodes(load(path))
    assert (read["tokens"], read["mask"]) == (["go", "on", "[7]"], [0, 1, 1])


def test_a_damaged_tokenizer_is_named(tmp_path):
    path = make_run(tmp_path, history(0.5))
    file = path / "policy" / "tokenizer.json"
    file.parent.mkdir()
    file.write_text("{")
    with pytest.raises(TokenizerError, match=str(file)):
        trajectories.render("a title", [load(path)])


@pytest.mark.parametrize("token", [-1, 2**32])
def test_an_id_that_is_none_is_shown_as_it_is(token):
    tokenizer = Tokenizer(WordLevel({"go": 0}, unk_token="go"))
    assert trajectories._tokens({"token_ids": [0, token]}, tokenizer) == ["go", f"[{token}]"]


def test_hostile_text_stays_data(tmp_path):
    page = page_of(tmp_path, [rollout("a", HOSTILE), rollout(HOSTILE, "x")])
    assert page.count("<script") == 2
    assert page.count("</script") == 2
    assert "\u2028" not in page
    assert [embedded(page)[0]["text"], embedded(page)[1]["task"]] == [HOSTILE, HOSTILE]


def test_a_page_of_too_much_leaves_out_evenly_and_says_so(tmp_path):
    lines = [rollout(f"task{index:03d}", "x" * 1000) for index in range(100)]
    page = page_of(tmp_path, lines, most_bytes=20_000)
    kept = [each["task"] for each in embedded(page)]
    assert 10 <= len(kept) <= 20
    assert kept[0] == "task000"
    assert kept[-1] >= "task090"
    assert f"{len(kept)} episodes of 100" in page


def test_a_run_without_kept_rollouts_has_a_page(tmp_path):
    assert embedded(page_of(tmp_path, [])) == []


def test_a_damaged_file_is_named(tmp_path):
    path = make_run(tmp_path, history(0.5), rollouts=[rollout()])
    (path / "rollouts" / "step_000001.jsonl").write_text("[1]\n")
    with pytest.raises(CorruptFileError, match=r"step_000001\.jsonl, line 1"):
        trajectories.render("title", [load(path)])


@browser
def test_both_pages_work_in_a_browser_without_a_complaint(tmp_path):
    lines = [
        rollout("a", CHAT.format(text=HOSTILE), token_ids=[1, 2], mask=[0, 1]),
        rollout("b", CHAT.format(text="Done."), 1.0),
    ]
    made = study.build(tmp_path / "out", [make_run(tmp_path, history(0.5), rollouts=lines)])
    dom, complaints = in_browser(made.html, tmp_path / "profile")
    assert complaints == []
    for table in ("systems", "mechanism", "rejected", "runs"):
        assert f'<table id="{table}">' in dom
    dom, complaints = in_browser(made.trajectories, tmp_path / "profile")
    assert complaints == []
    assert "2 of 2" in dom
    assert '<div class="message assistant">' in dom
    assert "owned</title>" not in dom
    assert "&lt;img src=x" in dom


@browser
def test_an_address_chooses_the_task(tmp_path):
    html = tmp_path / "page.html"
    html.write_text(page_of(tmp_path, [rollout("a"), rollout("b c&d"), rollout("b c&d")]))
    dom, complaints = in_browser(html, tmp_path / "profile", fragment="#task=b%20c%26d&else=x")
    assert complaints == []
    assert '<p id="count" class="soft">2 of 3</p>' in dom


@browser
def test_search_filters_and_tokens_on_demand(tmp_path):
    lines = [
        rollout("a", CHAT.format(text="first"), 0.25, token_ids=[1, 2], mask=[0, 1]),
        rollout("b", CHAT.format(text="second"), 1.0),
    ]
    run = make_run(tmp_path, history(0.5), rollouts=lines)
    evaluated(run, "scripted-heldout-1", played("h1", 0.75, [[True, True, True]]))
    html = tmp_path / "page.html"
    html.write_text(trajectories.render("title", [load(run)]))
    script = """
      const told = [];
      const set = (name, value) => { field(name).value = value; field("filters").dispatchEvent(new Event("input")); };
      const count = () => told.push(field("list").children.length + ":" + field("list").textContent);
      set("search", "SECOND"); count(); set("search", "");
      set("zone", "boundary"); count(); set("zone", "");
      set("low", "0.5"); count(); set("low", ""); set("high", "0.5"); count(); set("high", "");
      set("task", "b"); set("type", "unknown"); count();
      set("task", ""); set("type", ""); set("set", "scripted-heldout-1"); count();
      field("filters").reset(); list(); count();
      field("list").querySelector("button").click();
      told.push(field("tokens").children.length);
      field("show-tokens").click();
      told.push([...field("tokens").children].map((each) => each.textContent + each.className).join());
      document.title = JSON.stringify(told);
    """
    dom, complaints = in_browser(html, tmp_path / "profile", script)
    assert complaints == []
    told = json.loads(re.search(r"<title>(.*?)</title>", dom)[1])
    a, b = "0.25 step 1 · boundary · base · a #0", "1.00 step 1 · mastered · unknown · b #0"
    c = "0.75 scripted-heldout-1 · none · miss_func · h1 #0"
    one, two = [f"1:{b}", f"1:{a}", f"2:{b}{c}", f"1:{a}"], [f"1:{b}", f"1:{c}", f"3:{a}{b}{c}"]
    assert told == [*one, *two, 0, "[1],[2]sampled"]
