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


@pytest.mark.parametrize("name", ["gpus_per_node", "cpus_per_task", "mem_gb"])
def test_one_job_cannot_have_two_shapes(name: str) -> None:
    roles = {"train": {name: 1}, "synthesis": {name: 3}}
    assert keys({"coschedule": "single", **roles}) == {f"cluster.synthesis.{name}"}
    assert keys({"coschedule": "het", **roles}) == set()
    assert keys({"coschedule": "single", **roles}, synthesis={"enabled": False}) == set()


@pytest.mark.parametrize("coschedule", ["het", "single", "pair"])
def test_each_role_may_have_several_nodes(coschedule: str) -> None:
    assert keys({"coschedule": coschedule, "train": {"nodes": 2}, "synthesis": {"nodes": 3}}) == set()


def test_the_trainer_has_one_node_on_this_machine_and_beside_its_servers() -> None:
    two = {"train": {"nodes": 2}}
    assert keys({"kind": "local", **two}) == {"cluster.train.nodes"}
    assert keys(two, rollout={"placement": "served"}) == {"cluster.train.nodes"}
    assert "cluster.train.nodes" in keys(two, evaluation={"enabled": True})


@pytest.mark.parametrize(
    ("train", "ranks_per_node", "refused"),
    [
        ({"nodes": 3}, None, False),
        ({"nodes": 2, "gpus_per_node": 2}, None, True),
        ({"nodes": 2}, 2, True),
        ({"nodes": 1}, 2, False),
    ],
)
def test_rollouts_are_shared_by_the_ranks_of_all_nodes(
    train: dict[str, int], ranks_per_node: int | None, refused: bool
) -> None:
    training = {"tasks_per_step": 2, "group_size": 3, "skip_zero_variance": False}  # six rollouts
    cluster = SLURM | {"train": train}
    config = from_mapping({"cluster": cluster, "training": {**training, "ranks_per_node": ranks_per_node}})
    told = [problem.why for problem in rules.problems(config) if problem.key == "training.tasks_per_step"]
    assert any("cannot be shared equally by 4 ranks" in why for why in told) is refused


def test_a_job_that_would_be_told_to_stop_as_it_starts_is_refused() -> None:
    assert keys({"time_hours": 0.1, "signal_seconds": 360}) == {"cluster.signal_seconds"}
    assert keys({"time_hours": 0.1, "signal_seconds": 359}) == set()


def test_what_only_slurm_needs_is_not_asked_of_a_local_run() -> None:
    assert keys({"kind": "local", "partition": "a\nb", "coschedule": "single"}) == set()


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


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"rollout": {"servers": "${seed}"}}, "rollout.servers: expected a list, found 0"),
        ({"cluster": {"setup": "${seed}"}}, "cluster.setup: expected a list, found 0"),
        ({"cluster": {"extra": "${cluster.account}"}}, "cluster.extra: expected a mapping, found ''"),
    ],
)
def test_an_interpolation_to_a_single_value_is_no_list_and_no_mapping(
    sections: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        from_mapping(sections)


def test_an_interpolation_to_another_list_is_one() -> None:
    mounts = {"container": {"mounts": ["/a"]}, "setup": "${cluster.container.mounts}"}
    assert list(from_mapping({"cluster": mounts}).cluster.setup) == ["/a"]
