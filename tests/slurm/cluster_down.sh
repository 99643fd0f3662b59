#!/bin/bash
# cluster_down.sh DIR — cancel all jobs, then stop the daemons recorded in DIR/run/*.pid (by pid only)
D=$(cd "$1" && pwd) || exit; export SLURM_CONF="$D/slurm.conf"; cd "$D/run" || exit
stop() { # TERM, wait up to 3 s, KILL
  local p=() f; for f in "$@"; do [ -s "$f" ] && p+=("$(<"$f")"); done; [ ${#p[@]} -gt 0 ] || return 0
  kill -TERM "${p[@]}" 2>/dev/null
  for _ in $(seq 30); do kill -0 "${p[@]}" 2>/dev/null || return 0; sleep .1; done
  kill -KILL "${p[@]}" 2>/dev/null
}
if [ -s slurmctld.pid ]; then
  timeout 3 scancel -f -s KILL -u "$(id -un)"; timeout 3 scancel -u "$(id -un)"
  for _ in $(seq 30); do [ -z "$(timeout 2 squeue -h -o %i)" ] && break; sleep .1; done
fi 2>/dev/null
stop slurmctld.pid slurmd-*.pid
# slurmstepd and job processes that outlived their slurmd: exactly those whose environment names this cluster
for e in /proc/[0-9]*/environ; do p=${e//[!0-9]/}
  [ "$p" != $$ ] && grep -qzsxF "SLURM_CONF=$SLURM_CONF" "$e" && grep -qzs '^SLURM_JOB_ID=' "$e" && kill -KILL "$p" 2>/dev/null
done
stop slurmdbd.pid; stop mariadbd.pid munged.pid; rm -f ./*.pid
