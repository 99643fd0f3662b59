"""The paper's tables: read as published, refused when they are not."""

from pathlib import Path

import pytest

from analysis import paper

CONF = Path(paper.__file__).parents[1] / "conf"


def test_the_main_row_and_an_ablation():
    tables = paper.load()
    rods = tables.find("rods_qwen4b")
    assert [rods.get(part) for part in ("overall", "base", "miss_func", "miss_param", "long_context")] == [
        56.0,
        68.0,
        59.0,
        44.0,
        53.0,
    ]
    assert tables.find("rods_qwen4b", "random_seeds").get("overall") == 51.25
    assert tables.find("rods_qwen4b", "random_seeds").get("base") is None
    assert rods.get("system") is None


def test_what_the_paper_does_not_have():
    assert paper.load().find("rods_tiny") is None
    assert paper.load().find("") is None  # rows without an experiment are nobody's


def test_the_mean_of_the_types_is_the_overall_figure():
    for row in paper.load().rows:
        if row.base is not None:
            mean = (row.base + row.miss_func + row.miss_param + row.long_context) / 4
            assert row.overall == pytest.approx(mean, abs=0.26), row.system


def test_every_experiment_and_ablation_named_is_one_that_can_be_run():
    for group in ("experiment", "ablation"):
        names = {getattr(row, group) for row in paper.load().rows} - {""}
        assert names <= {path.stem for path in (CONF / group).glob("*.yaml")}


@pytest.mark.parametrize(
    "text", ["", "rows: []", "source: x\nrows: [{model: m}]", "source: x\nrows: [{overall: many}]", "a: ["]
)
def test_another_file_is_refused(tmp_path, text):
    file = tmp_path / "paper.yaml"
    file.write_text(text)
    with pytest.raises(paper.PaperError, match=r"paper\.yaml: expected the paper's tables"):
        paper.load(file)
