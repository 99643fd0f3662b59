"""The batch file of a job, as text: to be read, kept in the run directory, and submitted again by hand.

Nothing in it belongs to one submission only. Each start of the job, whether Slurm's or a person's, takes the next
attempt's number by making a file that must not exist; the tasks start `rods.roles.entry` from the frozen code.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from submitit.slurm.slurm import _make_sbatch_string

from launchers.batches import Batch
from launchers.containers import wrapping
from launchers.jobs import PUT_BACK, START
from launchers.lost_answer import job_name
from launchers.resources import Resources
from rods.config import ClusterConfig, Config
from rods.exchange import permissions

_BEHIND = 100  # Slurm's own measure of "nice"; more than what an hour of waiting adds to a job's priority
_NO_REQUEUE = "no-requeue"  # sbatch's option, which a site may ask for in cluster.extra
# What a job that submits jobs leaves to them; `scrubbed_environment` does the same before a submission of ours.
_SCRUB = 'for name in ${!SBATCH_@} ${!SRUN_@} ${!PMI_@} ${!PMIX_@}; do unset "$name"; done'
# As `rods.exchange.stop.finish` writes it. A job that was queued for a run that has ended since has nothing to do.
_END_IF_FINISHED = r"""
if grep -qs '"reason": "finished"' "$RODS_RUN_DIR/STOP"; then echo "the run has finished"; exit 0; fi
""".strip()
# The first start after a submission takes the folder that the submission made, every later one a new folder.
# A full disk may take the file and not its text: taking a number and writing into it fail for reasons of their own.
_BEGIN = rf"""
mkdir -p "$starts"
last=$(find "$starts" -mindepth 1 -maxdepth 1 -type d -name '[0-9]*' -printf '%f\n' | sort | tail -n 1)
RODS_ATTEMPT=$((10#${{last:-1}}))
until RODS_LOGS="$starts/$(printf %04d "$RODS_ATTEMPT")" && mkdir -p "$RODS_LOGS" &&
  (set -o noclobber; : >"$RODS_LOGS/{START}") 2>/dev/null; do
  [ -e "$RODS_LOGS/{START}" ] || {{ echo "cannot write $RODS_LOGS" >&2; exit 1; }}
  RODS_ATTEMPT=$((RODS_ATTEMPT + 1))
done
if ! echo "$SLURM_JOB_ID.${{SLURM_RESTART_COUNT:-0}}" >"$RODS_LOGS/{START}"; then
  rm -f "$RODS_LOGS/{START}"; echo "cannot write $RODS_LOGS" >&2; exit 1
fi
export RODS_ATTEMPT RODS_LOGS
""".strip()

# A srun that could not create its step has begun no role: what a lost node left behind may be in its way for a while.
_TRIES = "for pause in 20 60 0; do"
_UNLESS_BEGUN = r"""
  status=$?
  if [ "$status" = 0 ] || compgen -G "$RODS_LOGS/ROLE*.err" >/dev/null; then break; fi
  sleep "$pause"
done
""".strip("\n")
# A role in a container has no command of Slurm's to put its job back.
_REQUEUE = f"""
[ ! -e "$RODS_LOGS/{PUT_BACK}" ] || scontrol requeue "$SLURM_JOB_ID"
""".strip()
# A daemon that was killed (out of memory) could not have its job put back.
_AFTER_A_KILL = r"""
[ "$status" = 0 ] || [ -e "$RODS_LOGS/outcome.json" ] || [ "$RODS_REQUEUE" = 0 ] || scontrol requeue "$SLURM_JOB_ID"
""".strip()


def file_name(batch: Batch) -> str:
    """Name of the job's batch file in its attempt's folder."""
    return f"{batch.name}.sbatch"


def may_return(config: Config) -> bool:
    """Whether a job that is stopped before the run's end goes back into the queue; in a chain the next one goes on."""
    return config.launch.chain == 1 and _NO_REQUEUE not in config.cluster.extra


def batch_text(batch: Batch, config: Config, run_dir: Path, attempt: int) -> str:
    """The whole batch file.

    Args:
        attempt: in whose folder the file lies and the batch script itself logs.
    """
    folder = run_dir / "attempts" / f"{attempt:04d}"
    name = job_name(batch, run_dir.name)
    # A trainer that was put back must not find its node taken by a daemon that waits for it there.
    behind = {"nice": _BEHIND} if batch.follows_trainer else {}
    headers = [_header(config.cluster, part, name, folder / "slurm", behind) for part in batch.components]
    lines = [
        "#!/bin/bash",
        f"# {_what(batch)} of the run {run_dir.name}. To start it again by hand: sbatch {file_name(batch)}",
        "\n#SBATCH hetjob\n".join(headers),
        "",
        f"umask {permissions.umask(config.exchange.mode):04o}",
        _SCRUB,
        *config.cluster.setup,
        f"export RODS_RUN_DIR={shlex.quote(str(run_dir))}",
        f"export RODS_REQUEUE={int(may_return(config))} RODS_SERIES={batch.series}",
        _END_IF_FINISHED,
        'starts="$RODS_RUN_DIR/attempts${RODS_SERIES:+/$RODS_SERIES}"',
        _BEGIN,
        'export PYTHONPATH="$RODS_RUN_DIR/code" PYTHONSAFEPATH=1',
        _TRIES,
        "  srun --unbuffered \\",
        f"    {_steps(batch, config.cluster, run_dir)}",
        _UNLESS_BEGUN.replace("ROLE", batch.roles[0].role),
        _REQUEUE,
        *([_AFTER_A_KILL] if batch.series else []),
        'exit "$status"',
    ]
    return "\n".join(lines) + "\n"


def _what(batch: Batch) -> str:
    roles = " and ".join(role.role for role in batch.roles)
    return f"{roles[0].upper()}{roles[1:]}"


def _header(
    cluster: ClusterConfig, shape: Resources, name: str, log: Path, defaults: Mapping[str, Any]
) -> str:
    gpus = f"{cluster.gpu_type}:{shape.gpus_per_node}" if cluster.gpu_type else str(shape.gpus_per_node)
    log_name = str(log).replace("%", "%%")  # sbatch replaces %j and its like
    text = _make_sbatch_string(
        command="true",
        folder=log.parent,
        job_name=name,
        time=max(1, round(cluster.time_hours * 60)),
        signal_delay_s=cluster.signal_seconds,
        partition=cluster.partition or None,
        account=cluster.account or None,
        qos=cluster.qos or None,
        wckey=None,  # type: ignore[arg-type]  # submitit's default "submitit" is refused where wckeys are checked
        nodes=shape.nodes,
        ntasks_per_node=1,
        cpus_per_task=shape.cpus_per_task,
        gpus_per_node=gpus if shape.gpus_per_node else None,  # type: ignore[arg-type]  # "a100:8" is Slurm's form
        mem=f"{shape.mem_gb}GB" if shape.mem_gb else None,
        additional_parameters={
            **({} if _NO_REQUEUE in cluster.extra else {"requeue": True}),
            **defaults,
            "output": f"{log_name}-%j.out",
            "error": f"{log_name}-%j.err",
            **{name: value or True for name, value in cluster.extra.items()},
        },
    )
    return "\n".join(line for line in text.splitlines() if line.startswith("#SBATCH"))


def _steps(batch: Batch, cluster: ClusterConfig, run_dir: Path) -> str:
    if len(batch.components) == 1:
        return _step(batch, batch.roles, cluster, run_dir, batch.components[0])
    return " : \\\n    ".join(
        f"--het-group={index} {_step(batch, (shape,), cluster, run_dir, shape)}"
        for index, shape in enumerate(batch.components)
    )


def _step(
    batch: Batch, roles: tuple[Resources, ...], cluster: ClusterConfig, run_dir: Path, shape: Resources
) -> str:
    """One component's part of the srun line: its options, and one task a node."""
    wrap = wrapping(cluster, run_dir, shape.gpus_per_node)
    options = [
        f"--nodes={shape.nodes}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={shape.cpus_per_task}",  # srun takes it from its job no more since Slurm 22.05
        "--kill-on-bad-exit=1",
        *wrap.options,
    ]
    command = shlex.join([*wrap.prefix, wrap.python, "-u", "-m", "rods.roles.entry"])
    return f'{" ".join(options)} bash -c {shlex.quote(_task(batch, roles))} _ {command} "$RODS_RUN_DIR"'


def _task(batch: Batch, roles: tuple[Resources, ...]) -> str:
    """What each task does before it becomes its role: it learns from its node which one, and opens its logs.

    The node's number counts over all components; srun's own log names (%j, %t) count within one. A signal that comes
    before the role can take it would end it, and Slurm would not take up again what ended so.
    """
    first, choices = 0, []
    for role in batch.roles:
        shift = batch.replica - first
        number = f"$((SLURM_NODEID{shift:+d}))" if shift else "$SLURM_NODEID"
        setting = f"export RODS_ROLE={role.role} RODS_REPLICA={number}"
        first += role.nodes
        if role in roles:
            choices.append((f'[ "$SLURM_NODEID" -lt {first} ]', setting))
    return (
        f'trap "" TERM USR2; {_choose(choices)}; '
        'log="$RODS_LOGS/$RODS_ROLE"; [ "$RODS_REPLICA" = 0 ] || log="$log-$RODS_REPLICA"; '
        'exec "$@" >>"$log.out" 2>>"$log.err"'
    )


def _choose(choices: list[tuple[str, str]]) -> str:
    """A shell command that does the first of (condition, command) whose condition holds; the last needs none."""
    *others, (_, last) = choices
    if not others:
        return last
    tests = "; el".join(f"if {condition}; then {command}" for condition, command in others)
    return f"{tests}; else {last}; fi"
