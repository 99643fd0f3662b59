"""What the rules for a Slurm profile refuse: texts that would break out of their line, options that are not the
user's to set, shapes that one job cannot have."""

from __future__ import annotations

from typing import Any

import pytest

from rods.config import ConfigError, from_mapping, rules

SLURM: dict[str, Any] = {"kind": "slurm", "time_hours": 1.0}


def keys(cluster: dict[str, Any], **sections: Any) -> set[str]:
    """The keys that the rules name for a cluster section."""
    config = from_mapping({"cluster": SLURM | cluster, **sections})
    found = rules.problems(config)
    assert all(problem.fix and problem.why for problem in found)
    return {problem.key for problem in found if problem.key.startswith(("cluster", "launch"))}


def test_a_plain_profile_is_accepted() -> None:
    assert keys({}) == set()
    assert keys({"partition": "gpu,low", "setup": ["module load 'x y'"], "extra": {"exclusive": ""}}) == set()


@pytest.mark.parametrize("name", ["partition", "account", "qos", "gpu_type"])
@pytest.mark.parametrize("text", ["a\n#SBATCH --uid=0", "a\rb", "a\0b", "\x1b[2J"])
def test_a_text_that_would_start_another_line_is_refused(name: str, text: str) -> None:
    assert keys({name: text}) == {f"cluster.{name}"}


def test_line_breaks_are_refused_wherever_text_goes_into_the_file() -> None:
    assert keys({"setup": ["true", "a\nb"]}) == {"cluster.setup[1]"}
    assert keys({"extra": {"constraint": "a\nb"}}) == {"cluster.extra.constraint"}
    assert keys({}, launch={"runs_dir": "a\nb"}) == {"launch.runs_dir"}
    container = {"kind": "pyxis", "image": "a\nb", "python": "p\n", "mounts": ["/a\nb"]}
    names = ("image", "python", "mounts[0]")
    assert keys({"container": container}) == {f"cluster.container.{name}" for name in names}


@pytest.mark.parametrize("name", ["array", "dependency", "nodes", "time", "output", "signal", "job-name"])
def test_an_option_that_the_text_sets_itself_is_refused(name: str) -> None:
    assert keys({"extra": {name: "1"}}) == {f"cluster.extra.{name}"}


@pytest.mark.parametrize("name", ["--constraint", "Constraint", "a b", "a=b", "", "hetjob\n"])
def test_what_is_no_option_is_refused(name: str) -> None:
    assert keys({"extra": {name: "1"}}) == {f"cluster.extra.{name}"}


@pytest.mark.parametrize(
    ("container", "key"),
    [
        ({"kind": "docker", "image": "x"}, "kind"),
        ({"kind": "apptainer"}, "image"),
        ({"image": "x.sif"}, "image"),
        ({"kind": "pyxis", "image": "x", "python": " "}, "python"),
        ({"kind": "pyxis", "image": "x", "mounts": ["relative"]}, "mounts[0]"),
        ({"kind": "pyxis", "image": "x", "mounts": ["/a", "/a,/etc:/etc"]}, "mounts[1]"),
        ({"kind": "pyxis", "image": "x", "mounts": ["/a:b"]}, "mounts[0]"),
        ({"kind": "pyxis", "image": "x", "mounts": [""]}, "mounts[0]"),
    ],
)
def test_a_container_that_cannot_start_is_refused(container: dict[str, Any], key: str) -> None:
    assert keys({"container": container}) == {f"cluster.container.{key}"}


@pytest.mark.parametrize("runs_dir", ["/data:ro/runs", "runs,more"])
def test_a_run_directory_that_cannot_be_mounted_is_refused(runs_dir: str) -> None:
    container = {"kind": "pyxis", "image": "x"}
    assert keys({"container": container}, launch={"runs_dir": runs_dir}) == {"launch.runs_dir"}
    assert keys({}, launch={"runs_dir": runs_dir}) == set()


def test_mounts_may_say_where_and_how() -> None:
    mounts = ["/data", "/data:/inside", "/data:ro", "/data:/inside:rw", "/with blank"]
    assert keys({"container": {"kind": "apptainer", "image": "x.sif", "mounts": mounts}}) == set()


@pytest.mark.parametrize("name", ["gpus_per_node", "cpus_per_task", "mem_gb", "nodes"])
def test_one_job_cannot_have_two_shapes(name: str) -> None:
    roles = {"train": {name: 1}, "synthesis": {name: 3}}
    assert keys({"coschedule": "single", **roles}) == {f"cluster.synthesis.{name}"}
    assert keys({"coschedule": "het", **roles}) == set()
    assert keys({"coschedule": "single", **roles}, synthesis={"enabled": False}) == set()


def test_one_job_gives_each_role_one_node() -> None:
    assert keys({"coschedule": "single", "train": {"nodes": 2}, "synthesis": {"nodes": 2}}) == {
        "cluster.train.nodes"
    }


def test_a_job_that_would_be_told_to_stop_as_it_starts_is_refused() -> None:
    assert keys({"time_hours": 0.1, "signal_seconds": 360}) == {"cluster.signal_seconds"}
    assert keys({"time_hours": 0.1, "signal_seconds": 359}) == set()


def test_what_only_slurm_needs_is_not_asked_of_a_local_run() -> None:
    assert (
        keys({"kind": "local", "partition": "a\nb", "coschedule": "single", "train": {"nodes": 2}}) == set()
    )


@pytest.mark.parametrize(
    ("cluster", "launch", "key"),
    [
        ({"kind": "pbs"}, {}, "cluster.kind"),
        ({"coschedule": "triple"}, {}, "cluster.coschedule"),
        ({"rendezvous_s": 0.0}, {}, "cluster.rendezvous_s"),
        ({}, {"chain": 0}, "launch.chain"),
        ({"kind": "local"}, {"chain": 2}, "launch.chain"),
    ],
)
def test_values_out_of_their_range_are_refused(
    cluster: dict[str, Any], launch: dict[str, Any], key: str
) -> None:
    assert keys(cluster, launch=launch) == {key}


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"cluster": {"extra": {"constraint": ["a", "b"]}}}, "cluster.extra.constraint"),
        ({"boundary": {"quotas": {"base": {}}}}, "boundary.quotas.base"),
        ({"rollout": {"servers": ["http://a", ["http://b"]]}}, "rollout.servers.1"),
    ],
)
def test_a_list_where_a_single_value_belongs_is_refused_by_its_key(
    sections: dict[str, Any], key: str
) -> None:
    with pytest.raises(ConfigError, match=f"config key {key}: expected a single value"):
        from_mapping(sections)
