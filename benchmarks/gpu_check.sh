#!/usr/bin/env bash
# What needs an NVIDIA GPU, run as it is: benchmarks/gpu_check.sh [OUT]
#
# Makes a virtual environment of its own (OUT/venv), installs RODS with the gpu extra, and runs one check after the
# other: engine parity, the learner's tests, the tiny experiment in bf16 under ZeRO-3 and for a few epochs to learn, the
# served placement with NCCL (from two GPUs on), the figures of rollouts and overhead. Each check's words go to
# OUT/NAME.log; one JSON object with all results to OUT/gpu_check.json. OUT is ./gpu_check, unless given.
#
# Exit status: 0 all checks passed, 1 one failed, 3 this machine has no GPU that nvidia-smi lists.
set -u

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=${1:-$PWD/gpu_check}

gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | grep -c .) || gpus=0
if [ "$gpus" -eq 0 ]; then
    echo "gpu_check: nvidia-smi lists no GPU on this machine; nothing was checked" >&2
    exit 3
fi

mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
python=$out/venv/bin/python
results=$out/results.tsv
: > "$results"
cd "$root" || exit 1

# check NAME COMMAND...: run it, note name, exit status and seconds.
check() {
    local name=$1 started=$SECONDS status
    shift
    echo "gpu_check: $name" >&2
    "$@" > "$out/$name.log" 2>&1
    status=$?
    printf '%s\t%s\t%s\n' "$name" "$status" "$((SECONDS - started))" >> "$results"
    [ "$status" -eq 0 ] || echo "gpu_check: $name failed ($status), see $out/$name.log" >&2
    return "$status"
}

install() {
    tools/install.sh "${PYTHON:-python3}" "$out/venv" gpu && "$python" -c 'import vllm'
}

# launch NAME SETTING...: the tiny experiment in bf16, its run directory below OUT/runs/NAME.
launch() {
    local name=$1
    shift
    "$python" launch.py +experiment=rods_tiny rollout.engine=vllm model.dtype=bfloat16 \
        training.parity_tolerance=5.0e-2 tracking.wandb=disabled launch.runs_dir="$out/runs/$name" "$@"
}

# The trainer takes the first GPU that it sees, the server the second.
served() (
    export CUDA_VISIBLE_DEVICES=0,1
    launch served training.epochs=1 rollout.placement=served rollout.transfer=nccl 'rollout.server.devices=["1"]'
)

if check install install; then
    nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader > "$out/gpus.csv"
    check parity "$python" -m pytest -q tests/integration/test_engine_parity.py
    check learner "$python" -m pytest -q tests/integration/test_learner.py
    check zero3 launch zero3 training.zero_stage=3 training.epochs=1
    check learning launch learning training.epochs=4
    if [ "$gpus" -ge 2 ]; then
        check served served
    fi
    check benchmark "$python" -m benchmarks.training --json --engine vllm --figures rollout overhead
fi

"${PYTHON:-python3}" - "$out" "$gpus" <<'PYTHON_END'
import json
import sys
from pathlib import Path

out, gpus = Path(sys.argv[1]), int(sys.argv[2])


def last_object(log):
    """The last line of a log that is a JSON object, if there is one."""
    for line in reversed(log.read_text(errors="replace").splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return None


def evaluations(name):
    """The held-out figures of a run, in order."""
    files = sorted((out / "runs" / name).glob("*/metrics/train.jsonl"))
    records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    keys = ("step", "mode", "mean", "count")
    return [{key: each[key] for key in keys} for each in records if each.get("event") == "evaluation"]


rows = [line.split("\t") for line in (out / "results.tsv").read_text().splitlines()]
checks = {
    name: {"status": int(status), "seconds": int(seconds), "figures": last_object(out / f"{name}.log")}
    for name, status, seconds in rows
}
for name in ("zero3", "learning", "served"):
    if name in checks:
        checks[name]["heldout"] = evaluations(name)
passed = all(each["status"] == 0 for each in checks.values())
names = (out / "gpus.csv").read_text().splitlines() if (out / "gpus.csv").exists() else []
report = {"gpus": gpus, "names": names, "passed": passed, "checks": checks}
(out / "gpu_check.json").write_text(json.dumps(report, indent=1) + "\n")
print(json.dumps(report))
sys.exit(0 if passed else 1)
PYTHON_END
