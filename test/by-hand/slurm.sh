#!/usr/bin/env bash
# deploy/slurm/shards.sbatch under a real Slurm of one node: the demo's 60 rows as an array of four shards. One task gets
# the signal that comes before the time limit, and goes back into the queue by itself; of another one fw is killed, and
# the task is requeued by hand. Then the shards are merged, verified, and compared with one run, byte for byte.
#   test/by-hand/slurm.sh
# Needs root. Installs slurmctld, slurmd and munge from Debian where they are missing, and runs them in a folder of its
# own, on ports of its own, until it ends. Two minutes. Needs `make` to have run.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
[ "$(id -u)" = 0 ] || { echo 'slurm.sh: skipped: Slurm here needs root'; exit 0; }
if ! command -v slurmctld slurmd munged sbatch > /dev/null; then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge
fi

at=$(mktemp -d)
started=()
finish() {
  code=$?
  scancel --name=fw 2> /dev/null || true
  for process in "${started[@]}"; do kill "$process" 2> /dev/null || true; done
  wait
  [ "$code" = 0 ] || tail -n 30 "$at"/*.log "$at"/work/logs/*.log
  rm -rf "$at"
}
trap finish EXIT
until_true() { # until_true SECONDS WHAT COMMAND…: the command again and again, until it is true
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || { echo "slurm.sh: $what: not within its time"; exit 1; }
    sleep 0.2
  done
}

host=$(hostname -s)
mkdir -p "$at"/{bin,state,spool,munge,work/logs}
chmod 755 "$at" "$at/munge"
dd if=/dev/urandom of="$at/munge.key" bs=1024 count=1 status=none
chmod 400 "$at/munge.key"
munged --force --foreground --key-file="$at/munge.key" --socket="$at/munge/socket" --pid-file="$at/munged.pid" \
  --seed-file="$at/munged.seed" 2> "$at/munged.log" & started+=($!)
cat > "$at/slurm.conf" <<END
ClusterName=fw
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=26817
SlurmdPort=26818
AuthType=auth/munge
AuthInfo=socket=$at/munge/socket,cred_expire=5
CredType=cred/munge
SlurmUser=root
StateSaveLocation=$at/state
SlurmdSpoolDir=$at/spool
SlurmctldPidFile=$at/slurmctld.pid
SlurmdPidFile=$at/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SwitchType=switch/none
MpiDefault=none
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 RealMemory=8000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF=$at/slurm.conf
until_true 20 'munged listens' test -S "$at/munge/socket"
slurmctld -D -f "$at/slurm.conf" > "$at/slurmctld.log" 2>&1 & started+=($!)
slurmd -D -f "$at/slurm.conf" -N "$host" > "$at/slurmd.log" 2>&1 & started+=($!)
is_idle() { sinfo -h -o %T 2> /dev/null | grep -q idle; }
until_true 60 'the node is idle' is_idle
sinfo

printf '#!/bin/sh\nexec node %s/dist/bin/fw.js "$@"\n' "$root" > "$at/bin/fw"
chmod +x "$at/bin/fw"
export PATH=$at/bin:$PATH
node "$root/dist/bin/fw.js" simulate --port 0 --seed 7 --latency 500ms --faults fence=0.1,chatty=0.1 > "$at/server.json" 2> "$at/server.log" & started+=($!)
until_true 20 'the simulated server listens' test -s "$at/server.json"
FW_ENDPOINTS=$(jq -r .url "$at/server.json")
export FW_ENDPOINTS

cd "$at/work"
cp "$root/fixtures/applications-60.csv" prompts.csv
run=("$root/pipelines/fairwatch/batch.yaml" prompts.csv --set legacy-convert.timestamp=2026-01-01T00:00:00.000Z)
job=$(sbatch --parsable --array=1-4 --time=10 "$root/deploy/slurm/shards.sbatch" "${run[@]}" --set chain.in-flight=3)
echo "array $job"

has_asked() { [ "$(cat "ledger/$1-of-4"/*/*.ndjson 2> /dev/null | wc -l)" -ge 12 ]; }
until_true 60 'shard 2 has asked' has_asked 2
scancel --batch --signal=USR1 "${job}_2"
echo 'shard 2: USR1, as before its time limit'
until_true 60 'shard 3 has asked' has_asked 3
# which process it is, the lock of its ledger says
kill -KILL "$(jq -r .pid ledger/3-of-4/locks/*.lock)"
echo 'shard 3: fw killed'
state_of() { scontrol show job "${job}_$1" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p'; }
has_failed() { [ "$(state_of 3)" = FAILED ]; }
until_true 60 'task 3 has failed' has_failed
scontrol requeue "${job}_3"
is_over() { [ -z "$(squeue -h -j "$job" 2> /dev/null)" ]; }
until_true 240 'the array is over' is_over
for shard in 1 2 3 4; do
  echo "task $shard: $(scontrol show job "${job}_$shard" | grep -o 'JobState=[A-Z]*\|Restarts=[0-9]*\|ExitCode=[0-9:]*' | tr '\n' ' ')"
  [ "$(state_of "$shard")" = COMPLETED ]
done
for shard in 2 3; do scontrol show job "${job}_$shard" | grep -q 'Restarts=1 '; done

fw ingest --or-template "$root/pipelines/fairwatch/application.liquid" prompts.csv > asked.ndjson
fw verify --ids asked.ndjson 'out/*_legacy.*-of-4.jsonl'
fw merge 'out/*_legacy.*-of-4.jsonl' > all.jsonl
fw run "${run[@]}" --output one.jsonl --ledger ledger-of-one
cmp <(sort all.jsonl) <(sort one.jsonl)
requests=$(cat ledger/*/2*/*.ndjson | jq -c 'select(.key and .outcome)' | wc -l)
echo "slurm.sh: 60 results of four shards are those of one run, byte for byte; $requests answers on record for 300 questions"
