"""The documentation holds: links, and what its pages claim about files, names, settings, tests and messages."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from rods.cli import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONF = ROOT / "conf"
PAPER = "rods_qwen4b"
WIDTH = 120  # characters; as ruff's max-line-length
SETTING = re.compile(r"([a-z_]+(?:\.[a-z_0-9]+)+)=(.+)")
FILE = re.compile(r"((?:[\w.-]+/)+[\w.-]+\.(?:py|yaml))(?:::?(\w+))?")


def spans(page: str) -> list[str]:
    """The code spans of a page, fenced blocks left out."""
    text = re.sub(r"^```.*?^```", "", (DOCS / page).read_text(), flags=re.S | re.M)
    return re.findall(r"`([^`\n]+)`", text)


@cache
def settings(experiment: str) -> dict[str, Any]:
    """Every value of an experiment, by its dotted key."""
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        composed = compose(config_name="config", overrides=[f"+experiment={experiment}"])
    return dict(_flat(OmegaConf.to_container(composed), ""))


def _flat(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    yield key, value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(inner, f"{key}.{name}" if key else name)


@cache
def names(path: Path) -> frozenset[str]:
    """The functions, classes and values that a module defines at its top."""
    tree = ast.parse(path.read_text())
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assigned = {target.id for node in tree.body if isinstance(node, ast.Assign) for target in _names(node)}
    return frozenset(found | assigned)


def _names(node: ast.Assign) -> Iterator[ast.Name]:
    return (target for target in node.targets if isinstance(target, ast.Name))


@cache
def texts() -> str:
    """All literal text in the source and the installer, with a mark where a value is put in."""
    files = [path for room in ("rods", "launchers", "analysis") for path in (ROOT / room).rglob("*.py")]
    literals = [
        node.value
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return "\0".join([*literals, (ROOT / "tools" / "install.sh").read_text()])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it: strict, so a link that leads nowhere fails here.

    Not quiet: mkdocs counts the warnings that it prints, so with --quiet strict mode passes everything.
    """
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=quiet, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_builds_and_every_link_leads_somewhere(site: Path) -> None:
    assert (site / "tutorial.html").is_file()


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r"<(?:script|img|iframe)[^>]*src=\"?https?:|<link[^>]*stylesheet[^>]*https?:")
    assert [page.name for page in site.glob("*.html") if loaded.search(page.read_text())] == []


@pytest.mark.skipif(
    shutil.which("chromium") is None, reason="chromium is not installed (make test installs it)"
)
def test_a_page_opened_as_a_file_can_be_searched(site: Path, tmp_path: Path) -> None:
    flags = "--headless --no-sandbox --disable-gpu --virtual-time-budget=8000 --dump-dom"
    address = (site / "index.html").as_uri() + "?q=barrier"
    command = ["chromium", *flags.split(), f"--user-data-dir={tmp_path / 'profile'}", address]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert re.search(r"md-search-result__meta\">[1-9]\d* matching documents", shown)


def test_the_readmes_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#\s]+)", (ROOT / "README.md").read_text())
    here = [link for link in links if "://" not in link]
    assert here
    assert [link for link in here if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_files_and_names_in_code_spans_exist(page: str) -> None:
    missing = []
    for span in spans(page):
        match = FILE.fullmatch(span)
        if match is None or not match[1].startswith(("rods/", "analysis/", "launchers/", "tests/", "tools/")):
            continue
        path = ROOT / match[1]
        if not path.is_file() or (match[2] and match[2] not in names(path)):
            missing.append(span)
    assert missing == []


@pytest.mark.parametrize("page", ["paper_and_code.md", "defaults.md"])
def test_the_values_are_those_of_the_papers_experiment(page: str) -> None:
    found = [match.groups() for span in spans(page) if (match := SETTING.fullmatch(span))]
    assert len(found) > 20
    wrong = [
        f"{key}={text}: {settings(PAPER).get(key, 'no such setting')!r}"
        for key, text in found
        if key not in settings(PAPER) or yaml.safe_load(text) != _plain(settings(PAPER)[key])
    ]
    assert wrong == []


def _plain(value: Any) -> Any:
    """As the page writes it: YAML reads 1e-06 as text."""
    return str(value) if isinstance(value, float) and "e" in str(value) else value


def test_every_value_that_the_files_call_ours_has_its_reason() -> None:
    page = {match[1] for span in spans("defaults.md") if (match := SETTING.fullmatch(span))}
    sections = ("boundary", "buffer", "synthesis", "training", "rollout", "exchange", "simulation")
    ours = {
        f"{section}.{match[1]}"
        for section in sections
        for path in (CONF / section).glob("*.yaml")
        if path.stem in ("paper", "training", "default")
        for line in path.read_text().splitlines()
        if (match := re.match(r"(\w+):.*# ours", line))
    }
    assert len(ours) > 20
    assert ours - page == set()


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_lines_are_no_longer_than_the_codes_where_a_page_can_break_them(page: str) -> None:
    lines = (DOCS / page).read_text().splitlines()
    long = [line for line in lines if len(line) > WIDTH and not line.lstrip().startswith("|")]
    assert long == []


def test_ablations_and_experiments_that_pages_name_exist() -> None:
    named = [
        (match[1], match[2])
        for path in DOCS.glob("*.md")
        for match in re.finditer(r"\+(experiment|ablation)=(\w+)", path.read_text())
    ]
    assert len(named) > 10
    placeholders = {"NAME", "X", "glob", "my_study"}
    missing = {
        f"{group}={name}"
        for group, name in named
        if name not in placeholders and not (CONF / group / f"{name}.yaml").is_file()
    }
    assert missing == set()


def test_the_messages_of_troubleshooting_are_those_of_the_source() -> None:
    rows = [line for line in (DOCS / "troubleshooting.md").read_text().splitlines() if line.startswith("| `")]
    pieces = [
        piece.strip()
        for row in rows
        for span in re.findall(r"`([^`]+)`", row.split(" | ")[0])
        for piece in span.split("…")
        if len(piece.strip()) > 7
    ]
    assert len(pieces) > 25
    assert [piece for piece in pieces if piece not in texts()] == []


def test_what_the_demo_names_next_can_be_typed() -> None:
    text = (ROOT / "tools" / "after_demo.txt").read_text()
    made = subprocess.run(
        ["make", "--no-print-directory", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert made.splitlines()[-1] == "cat tools/after_demo.txt"
    commands = set(re.findall(r"bin/rods ([a-z-]+)", text))
    assert commands <= set(typer.main.get_command(app).commands), commands  # type: ignore[attr-defined]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    assert set(re.findall(r"make ([a-z]+)", text)) <= targets
    experiments = re.findall(r"[+]experiment=(\w+)", text)
    assert len(experiments) > 1
    assert all((CONF / "experiment" / f"{name}.yaml").is_file() for name in experiments)
    assert all((ROOT / page).is_file() for page in re.findall(r"docs/\w+\.md", text))
    assert max(map(len, text.splitlines())) <= 120
