"""What a multirun consists of: every point that was asked for, and a refusal where Hydra would drop some.

The traps are those of hydra-core 1.3: sweeps that experiments name in their files, launchers that they choose,
keys that are given twice, globs that match nothing.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from sweep_examples import CONF, conf_with, points

from launchers import sweep, sweep_table
from launchers.identity import config_hash
from launchers.sweep import Point, Refused
from launchers.sweep_overrides import SweepError
from rods.config import from_mapping
from rods.config.compose import in_order

INNER = 'hydra: {sweeper: {params: {seed: "1,2,3"}}}'


def told(made: list[Point | Refused]) -> list[str]:
    return [" ".join(point.overrides) for point in made]


def configs(made: list[Point | Refused]) -> list[object]:
    """Of points that can all run."""
    refused = [point.reason for point in made if isinstance(point, Refused)]
    assert not refused
    return [point.config for point in made if isinstance(point, Point)]


def test_a_grid_has_a_run_for_each_combination() -> None:
    made = points("+experiment=rods_tiny", "seed=1,2", "boundary.alpha_high=choice(0.8,0.9)")
    assert told(made) == [
        f"+experiment=rods_tiny seed={seed} boundary.alpha_high={alpha}"
        for seed in (1, 2)
        for alpha in (0.8, 0.9)
    ]
    assert [(one.seed, one.boundary.alpha_high) for one in configs(made)] == [
        (1, 0.8),
        (1, 0.9),
        (2, 0.8),
        (2, 0.9),
    ]
    assert [point.number for point in made] == [1, 2, 3, 4]


def test_a_multirun_of_one_is_one() -> None:
    (config,) = configs(points("+experiment=rods_tiny"))
    assert config.experiment == "rods_tiny"


def test_several_experiments_are_each_composed_whole() -> None:
    made = points("+experiment=rods_tiny,rods_qwen4b", "launch.mode=submit", "cluster=slurm_test")
    assert [config.experiment for config in configs(made)] == ["rods_tiny", "rods_qwen4b"]
    assert [config.training.group_size for config in configs(made)] == [8, 16]


def test_every_ablation_of_the_paper_by_one_glob() -> None:
    made = points("+experiment=rods_tiny", "+ablation=glob(*)")
    names = sorted(path.stem for path in (CONF / "ablation").glob("*.yaml"))
    assert [config.name for config in configs(made)] == [f"rods_tiny-{name}" for name in names]
    assert len({config_hash(config) for config in configs(made)}) == len(names) >= 7


def test_an_ablation_wins_over_its_experiment_wherever_it_is_typed(tmp_path: Path) -> None:
    conf = conf_with(tmp_path, eager="buffer: {retire: true}")
    (config,) = configs(points("+ablation=no_retirement", "+experiment=eager", conf=conf))
    assert config.buffer.retire is False
    assert in_order(["seed=1", "+ablation=a", "+experiment=b", "x=+experiment=c"]) == [
        "+experiment=b",
        "+ablation=a",
        "seed=1",
        "x=+experiment=c",
    ]


def test_the_sweep_of_one_experiments_file_is_expanded(tmp_path: Path) -> None:
    conf = conf_with(tmp_path, seeds=INNER)
    assert told(points("+experiment=seeds", conf=conf)) == [
        f"+experiment=seeds seed={seed}" for seed in (1, 2, 3)
    ]


def test_the_sweeps_of_several_experiments_are_expanded_which_hydra_drops(tmp_path: Path) -> None:
    conf = conf_with(
        tmp_path, seeds=INNER, alphas='hydra: {sweeper: {params: {boundary.alpha_low: "0.1,0.2"}}}'
    )
    assert told(points("+experiment=seeds,alphas,rods_tiny", "training.epochs=2,3", conf=conf)) == [
        *[
            f"+experiment=seeds training.epochs={epochs} seed={seed}"
            for epochs in (2, 3)
            for seed in (1, 2, 3)
        ],
        *[
            f"+experiment=alphas training.epochs={epochs} boundary.alpha_low={alpha}"
            for epochs in (2, 3)
            for alpha in (0.1, 0.2)
        ],
        *[f"+experiment=rods_tiny training.epochs={epochs}" for epochs in (2, 3)],
    ]


def test_what_is_typed_wins_over_the_sweep_of_a_file(tmp_path: Path) -> None:
    conf = conf_with(tmp_path, seeds=INNER)
    made = points("+experiment=seeds,rods_tiny", "seed=7,8", conf=conf)
    assert [config.seed for config in configs(made)] == [7, 8, 7, 8]


def test_a_file_may_sweep_a_group_whose_files_sweep_again(tmp_path: Path) -> None:
    conf = conf_with(tmp_path, all="hydra: {sweeper: {params: {+ablation: 'blind_retry,seeded'}}}")
    (conf / "ablation" / "seeded.yaml").write_text(f"# @package _global_\nablation: seeded\n{INNER}\n")
    assert told(points("+experiment=all", conf=conf)) == [
        "+experiment=all +ablation=blind_retry",
        *[f"+experiment=all +ablation=seeded seed={seed}" for seed in (1, 2, 3)],
    ]


def test_an_experiment_among_several_that_wants_another_launcher_is_refused(tmp_path: Path) -> None:
    conf = conf_with(tmp_path, own="defaults: [override /hydra/launcher: other]")
    (conf / "hydra" / "launcher").mkdir()
    (conf / "hydra" / "launcher" / "other.yaml").write_text("_target_: some.other.Launcher\n")
    good, bad = points("+experiment=rods_tiny,own", conf=conf)
    assert isinstance(good, Point)
    assert isinstance(bad, Refused)
    assert "some.other.Launcher" in bad.reason
    assert "leave `override /hydra/launcher` out" in bad.reason
    (alone,) = points("+experiment=own", conf=conf)
    assert isinstance(alone, Refused)


def test_a_sweeper_of_an_experiments_file_has_no_effect(tmp_path: Path) -> None:
    conf = conf_with(tmp_path, own="defaults: [override /hydra/sweeper: basic]")
    assert told(points("+experiment=own", "seed=1,2", conf=conf)) == [
        "+experiment=own seed=1",
        "+experiment=own seed=2",
    ]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("seed=1,2", "seed=3"), "seed is given more than once (seed=1,2 and seed=3)"),
        (("seed=3", "seed=1,2"), "seed is given more than once (seed=3 and seed=1,2)"),
        (("+ablations=glob(*)",), "+ablations=glob(*): matches nothing"),
        (("+ablation=glob(x*)",), "+ablation=glob(x*): matches nothing"),
        (("seed=range(3,3)",), "matches nothing"),
        (("boundary.alpha_low=interval(0,1)",), "found an interval"),
        (("cluster=local,slurm_test",), "cluster.kind differs between the runs"),
        (("launch.mode=submit,wait",), "launch.mode differs between the runs"),
        (("launch.max_parallel=1,2",), "launch.max_parallel differs between the runs"),
        (("exchange.mode='0750','0700'",), "exchange.mode differs between the runs"),
        (("exchange.group=one,two",), "exchange.group differs between the runs"),
    ],
)
def test_a_sweep_that_is_not_what_it_looks_like_is_refused(overrides: tuple[str, ...], message: str) -> None:
    with pytest.raises(SweepError) as refused:
        points("+experiment=rods_tiny", *overrides)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("training.group_size=1,8", "the advantage of a group of one is always 0"),
        ("tasks=nowhere,scripted", "nowhere"),
        ("training.nope=1,2", "training.nope"),
        ("training.epochs=many,2", "training.epochs"),
        ("launch.resume=a,''", "launch.resume names one run"),
    ],
)
def test_a_point_that_cannot_run_says_why(override: str, reason: str) -> None:
    made = points("+experiment=rods_tiny", override)
    assert len(made) == 2
    assert isinstance(made[0], Refused)
    assert made[0].overrides == ("+experiment=rods_tiny", override.split(",")[0])
    assert reason in made[0].reason


def test_each_reason_is_told_once_with_the_points_it_holds_for() -> None:
    refused = [Refused(number, (f"seed={number}",), "it is Monday") for number in range(1, 9)]
    lines = list(sweep.reasons([*refused, Refused(9, ("seed=9",), "it is late\n  very late")]))
    assert lines == [
        "run 1 and 7 more: 2, 3, 4, 5, 6 … (seed=1): it is Monday",
        "run 9 (seed=9): it is late\n    very late",
    ]


@pytest.mark.parametrize(
    "overrides",
    [
        ("+experiment=rods_tiny", "boundary.quotas={base: 1}", "reward.name=format", "reward={name: binary}"),
        ("+experiment=rods_qwen4b", "+ablation=static_pool", "+cluster.extra.constraint=ib"),
        (
            "+experiment=rods_tiny",
            "tasks=bfcl",
            "++training.epochs=5",
            "+cluster.extra={nice: 10}",
            "cluster=slurm_test",
        ),
        ("~boundary.quotas.base", "+experiment=rods_qwen4b", "synthesis.server_args=[a,b]"),
    ],
)
def test_composing_many_points_gives_what_hydra_gives_for_one(overrides: tuple[str, ...]) -> None:
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        expected = from_mapping(compose("config", in_order(overrides)))
    assert configs(points(*overrides)) == [expected]


def test_points_do_not_share_what_one_of_them_sets() -> None:
    first, second, third = configs(points("+experiment=rods_tiny", "seed=1,2,3"))
    assert (first.seed, second.seed, third.seed) == (1, 2, 3)
    one, other = configs(points("+experiment=rods_qwen4b", "~boundary.quotas.base", "seed=1,2"))
    assert "base" not in one.boundary.quotas
    assert one.boundary == other.boundary


def test_the_same_configuration_twice_is_told() -> None:
    made = [point for point in points("+experiment=rods_tiny", "seed=1,2,1") if isinstance(point, Point)]
    assert len(made) == 3
    assert sweep_table.duplicates(made) == ["runs 1, 3 have the same configuration, seed included"]


def test_experiment_and_ablation_are_absent_from_the_primary_defaults() -> None:
    defaults = yaml.safe_load((CONF / "config.yaml").read_text())["defaults"]
    groups = {key for entry in defaults if isinstance(entry, dict) for key in entry}
    assert "tasks" in groups
    assert not {"experiment", "ablation"} & groups


def test_the_installed_omegaconf_is_one_that_hydra_can_use() -> None:
    assert tuple(map(int, metadata.version("omegaconf").split(".")[:2])) < (2, 4)


def launch(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CONF.parent / "launch.py"), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_plan_lists_every_run_with_its_cost_and_starts_none(tmp_path: Path) -> None:
    done = launch(tmp_path, "+experiment=rods_qwen4b", "+ablation=glob(*)", "-m", "launch.mode=plan")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum("rods_qwen4b-" in line for line in lines) == 7
    assert next(line for line in lines if "static_pool" in line).split()[-3:] == ["8", "72", "576"]
    assert f"7 runs: at most {6 * 1152 + 576} GPU-hours" in lines[-1]
    assert not list(tmp_path.rglob("*"))


def test_a_plan_of_runs_on_this_machine_prices_nothing(tmp_path: Path) -> None:
    done = launch(tmp_path, "+experiment=rods_tiny", "seed=1,2", "-m", "launch.mode=plan")
    lines = done.stdout.splitlines()
    assert next(line for line in lines if "seed=2" in line).split()[-4:] == ["local", "0", "–", "–"]
    assert lines[-1].startswith("2 runs: nothing is allocated. Nothing was started")


def test_one_bad_point_refuses_all_before_anything_is_started(tmp_path: Path) -> None:
    done = launch(tmp_path, "-m", "+experiment=rods_tiny", "training.group_size=8,1", "seed=1,2")
    assert done.returncode == 2
    assert done.stdout.startswith("4 runs:\n")
    assert "2 of 4 runs cannot run, so nothing was started" in done.stderr
    assert "(+experiment=rods_tiny training.group_size=1 seed=1)" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("*"))


def test_the_sweep_of_a_file_is_not_one_run(tmp_path: Path) -> None:
    extra = tmp_path / "extra" / "experiment"
    extra.mkdir(parents=True)
    (extra / "seeds.yaml").write_text(f"# @package _global_\nexperiment: seeds\n{INNER}\n")
    options = ("--config-dir", str(tmp_path / "extra"), "+experiment=seeds", "launch.mode=plan")
    refused = launch(tmp_path, *options)
    assert refused.returncode == 2
    assert "this experiment is a sweep (seed=1,2,3); add -m" in refused.stderr
    assert launch(tmp_path, *options, "seed=2").returncode == 0
    assert "3 runs" in launch(tmp_path, *options, "-m").stdout


def test_another_sweeper_is_refused(tmp_path: Path) -> None:
    done = launch(tmp_path, "-m", "+experiment=rods_tiny", "hydra/sweeper=basic", "seed=1,2")
    assert done.returncode != 0
    assert "leave `hydra/sweeper=…` out" in done.stderr
    assert not list(tmp_path.glob("runs"))


def test_help_is_quick_to_read_and_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys, runpy; sys.argv = ['launch.py', '--help']\n"
        f"sys.path.insert(0, {str(CONF.parent)!r})\n"
        f"try: runpy.run_path({str(CONF.parent / 'launch.py')!r}, run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print('HEAVY', [m for m in ('torch', 'vllm', 'numpy', 'submitit', 'rich') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.rstrip().endswith("HEAVY []"), done.stdout[-200:]
    for part in ("+ablation=glob(*)", "launch.mode=plan", "rods resume latest", "ablation: binary_reward"):
        assert part in done.stdout
