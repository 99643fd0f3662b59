"""A policy's files are found in the package, in a folder or in the local cache; else the message says what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rods.model_path import ModelNotFoundError, check_weights, local, resolve


def test_a_folder_and_a_shipped_model_are_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert local(str(tmp_path)) == str(tmp_path)
    assert local("shipped/tiny") == resolve("shipped/tiny")


def test_a_name_is_looked_up_in_the_cache_and_nothing_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The cache as `hf download` leaves it.
    repo = tmp_path / "models--Qwen--Qwen3-4B"
    snapshot = repo / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert local("Qwen/Qwen3-4B") == str(snapshot)
    # The cache also remembers which files a model lacks.
    lacking = tmp_path / "models--Qwen--Qwen3-8B"
    (lacking / "refs").mkdir(parents=True)
    (lacking / "refs" / "main").write_text("0" * 40)
    (lacking / ".no_exist" / ("0" * 40)).mkdir(parents=True)
    (lacking / ".no_exist" / ("0" * 40) / "config.json").touch()
    with pytest.raises(ModelNotFoundError, match="run `hf download Qwen/Qwen3-8B` where there is a network"):
        local("Qwen/Qwen3-8B")


@pytest.mark.parametrize("path", ["no/such/model/anywhere", "", "..", "Qwen/Qwen3-4B\n"])
def test_what_cannot_be_a_name_is_refused_alike(path: str) -> None:
    with pytest.raises(ModelNotFoundError, match=r"model\.path = "):
        local(path)


def test_only_what_can_be_on_the_hub_is_to_be_downloaded() -> None:
    with pytest.raises(ModelNotFoundError, match="found neither") as refused:
        local("nothere")
    assert "hf download" not in str(refused.value)
    assert "ORG/NAME" in str(refused.value)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"no config\.json in it"):
        local(str(tmp_path))


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_weights_are_there_whole_or_in_parts(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelNotFoundError, match=r"expected weights in .*found none"):
        check_weights(str(tmp_path))
    parts = {"a.weight": "part-1", "b.weight": "part-2", "c.weight": "part-2"}
    (tmp_path / f"{name}.index.json").write_text(json.dumps({"weight_map": parts}))
    (tmp_path / "part-1").touch()
    with pytest.raises(ModelNotFoundError, match=r"found no part-2 \(1 missing\)"):
        check_weights(str(tmp_path))
    (tmp_path / "part-2").touch()
    check_weights(str(tmp_path))
    (tmp_path / f"{name}.index.json").unlink()
    (tmp_path / name).touch()
    check_weights(str(tmp_path))


@pytest.mark.parametrize("name", ["model.safetensors", "part-1"])
def test_a_clone_without_git_lfs_has_no_weights(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    if name == "part-1":
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 988097824\n")
    with pytest.raises(ModelNotFoundError, match=rf"{name}, found git-lfs's pointer"):
        check_weights(str(tmp_path))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", *(f'{{"weight_map": {found}}}' for found in ("1", "[]", "{}")), "[" * 100_000]
)
def test_a_damaged_index_of_weights_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(ModelNotFoundError, match=r"model\.safetensors\.index\.json: expected the index"):
        check_weights(str(tmp_path))
