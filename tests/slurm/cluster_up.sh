#!/bin/bash
# cluster_up.sh DIR [NODES=4] — private Slurm cluster in DIR (root, no systemd). Then: export SLURM_CONF=DIR/slurm.conf
# Use a new DIR each time: job ids start anew, and an old result file would answer for a new job.
set -euo pipefail
D=$(mkdir -p "$1" && cd "$1" && pwd); N=${2:-4}; H=$(hostname -s)
G=${GPUS:-8}; CPUS=${CPUS:-16}; MEM=${MEM:-16000}; BASE=${BASE_PORT:-17000}
mkdir -p "$D"/{run,log,state,spool,munge,dev}; chmod 755 "$D" "$D"/run; chmod 700 "$D/munge"
# --- munge: own key, own socket, own pid (never touches /etc/munge) ---
[ -s "$D/munge/key" ] || (umask 077; head -c 1024 /dev/urandom >"$D/munge/key")
munged --key-file="$D/munge/key" --socket="$D/run/munge.sock" --pid-file="$D/run/munged.pid" \
       --log-file="$D/log/munged.log" --seed-file="$D/munge/seed" --num-threads=4
# --- accounting (DBD=0 switches it off): throw-away MariaDB + slurmdbd ---
ACCT=AccountingStorageType=accounting_storage/none
if [ "${DBD:-1}" = 1 ]; then
  DBPORT=$((BASE+91)); ACCT="AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((BASE+90))
AccountingStoragePass=$D/run/munge.sock
AccountingStorageTRES=gres/gpu"
  if [ ! -d "$D/db/mysql" ]; then
    mkdir -p "$D/db"
    mariadb-install-db --no-defaults --user=root --datadir="$D/db" --skip-test-db \
      --auth-root-authentication-method=normal --skip-log-bin >"$D/log/install-db.log" 2>&1
  fi
  mariadbd --no-defaults --user=root --datadir="$D/db" --socket="$D/run/db.sock" --pid-file="$D/run/mariadbd.pid" \
    --bind-address=127.0.0.1 --port=$DBPORT --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900 \
    --innodb-flush-log-at-trx-commit=0 --innodb-flush-method=nosync --skip-log-bin >"$D/log/mariadbd.log" 2>&1 </dev/null &
  for _ in $(seq 100); do mariadb --no-defaults -uroot -S "$D/run/db.sock" -e "CREATE USER IF NOT EXISTS slurm@'127.0.0.1' \
    IDENTIFIED BY 'slurm'; GRANT ALL ON slurm_acct_db.* TO slurm@'127.0.0.1'" 2>/dev/null && break; sleep .1; done
  cat >"$D/slurmdbd.conf" <<CONF
DbdHost=localhost
DbdPort=$((BASE+90))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$D/run/munge.sock,cred_expire=5
PidFile=$D/run/slurmdbd.pid
LogFile=$D/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$DBPORT
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
CommitDelay=0
CONF
  chmod 600 "$D/slurmdbd.conf"
  SLURM_CONF="$D/slurm.conf" slurmdbd
  for _ in $(seq 100); do (exec 3<>/dev/tcp/127.0.0.1/$((BASE+90))) 2>/dev/null && break; sleep .1; done
fi
# --- config ---
cat >"$D/slurm.conf" <<CONF
ClusterName=lab
SlurmctldHost=$H(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$D/run/munge.sock,cred_expire=5
CredType=cred/munge
SlurmctldPort=$BASE
SlurmctldPidFile=$D/run/slurmctld.pid
SlurmdPidFile=$D/run/slurmd-%n.pid
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool/%n
SlurmctldLogFile=$D/log/slurmctld.log
SlurmdLogFile=$D/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/${GATHER:-none}
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=100
SlurmdParameters=config_overrides
ReturnToService=2
MailProg=/bin/true
SlurmdTimeout=${SLURMD_TIMEOUT:-30}
SlurmctldTimeout=30
InactiveLimit=0
MinJobAge=${MIN_JOB_AGE:-300}
KillWait=${KILL_WAIT:-5}
JobRequeue=1
SlurmctldParameters=preempt_send_user_signal
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2,sched_min_interval=0,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
JobCompType=jobcomp/filetxt
JobCompLoc=$D/log/jobcomp.txt
$ACCT
${EXTRA_CONF:-}
NodeName=n[1-$N] NodeHostname=$H NodeAddr=127.0.0.1 Port=[$((BASE+1))-$((BASE+N))] CPUs=$CPUS RealMemory=$MEM Gres=gpu:$G State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=off
PartitionName=low Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=requeue GraceTime=${GRACE:-0}
PartitionName=graced Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=requeue GraceTime=60
PartitionName=one Nodes=n$N MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=off
CONF
# fake GPUs: slurmd needs N *distinct* char/block device paths; a symlink to /dev/null passes its stat()
for i in $(seq 0 $((G-1))); do ln -sfn /dev/null "$D/dev/gpu$i"; done
echo "NodeName=n[1-$N] Name=gpu File=$D/dev/gpu[0-$((G-1))]" >"$D/gres.conf"
# the cgroup plugin is loaded even when unused: keep it from probing
printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n' >"$D/cgroup.conf"
export SLURM_CONF="$D/slurm.conf"
slurmctld $([ -e "$D/state/last_config_lite" ] || echo -c)
for i in $(seq "$N"); do mkdir -p "$D/spool/n$i"; slurmd -N "n$i"; done
for _ in $(seq 200); do (exec 3<>/dev/tcp/127.0.0.1/$BASE) 2>/dev/null && break; sleep .05
  kill -0 "$(cat "$D/run/slurmctld.pid" 2>/dev/null)" 2>/dev/null || { grep -h fatal "$D/log/slurmctld.log" >&2 && exit 1; }; done
for _ in $(seq 100); do
  [ "$(timeout 2 sinfo -h -N -o %T 2>/dev/null | grep -c '^idle$')" -ge $((3*N+1)) ] && exec sinfo
  sleep .1
done
echo "cluster not ready" >&2; timeout 5 sinfo -N || true; tail -n 20 "$D"/log/*.log >&2; exit 1
