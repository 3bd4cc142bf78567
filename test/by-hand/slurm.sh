#!/usr/bin/env bash
# deploy/slurm under a real Slurm of one node.
# shards.sbatch: the demo's 60 rows as an array of four shards. One task gets the signal that comes before the time limit,
# and goes back into the queue by itself; of another one fw is killed, and the task is requeued by hand. Then the shards
# are merged, verified, and compared with one run, byte for byte.
# workers.sbatch and scale.sh: a batch of fw serve, with a vllm that is a simulated server. The worker that has all of it
# comes to its time limit and hands back; scale.sh starts others, cancels what waits when all is done, and the rest end
# by themselves.
#   test/by-hand/slurm.sh
# Needs root. Installs slurmctld, slurmd, munge and Redis from Debian where they are missing, and runs them in a folder of
# its own, on ports of its own, until it ends. Five minutes. Needs `make` to have run.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
[ "$(id -u)" = 0 ] || { echo 'slurm.sh: skipped: Slurm here needs root'; exit 0; }
for tool in slurmctld slurmd munged sbatch redis-server; do # each by itself: of several, `command -v` wants one
  command -v "$tool" > /dev/null && continue
  apt-get update -qq && apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge redis-server
done

at=$(mktemp -d)
started=()
finish() {
  code=$?
  scancel --name=fw 2> /dev/null || true
  scancel --name=fw-worker 2> /dev/null || true
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

# workers
mkdir -p "$at/workers/logs"
cd "$at/workers"
unset FW_ENDPOINTS
cat > "$at/bin/vllm" <<END
#!/bin/sh
while [ "\$1" != --port ]; do shift; done
exec fw simulate --port "\$2" --latency "\${LATENCY:-20ms}"
END
chmod +x "$at/bin/vllm"
redis-server --port 26390 --bind 127.0.0.1 --save '' --maxmemory-policy noeviction > "$at/redis.log" & started+=($!)
export FW_REDIS=redis://127.0.0.1:26390
key=$(fw keys add alice --data serve)
FW_WORKER_KEY=$(fw keys add gpus --data serve --scope worker)
FW_METRICS_KEY=$(fw keys add prometheus --data serve --scope metrics)
export FW_WORKER_KEY FW_METRICS_KEY
fw serve --data serve --listen 127.0.0.1:0 > "$at/serve.json" 2> "$at/serve.log" & started+=($!)
until_true 20 'the server listens' test -s "$at/serve.json"
FW_SERVER=$(jq -r .url "$at/serve.json")
# one core a worker, so that four fit on the node; scale.sh may have six
export LATENCY=5s FW_SERVER IDLE=20s GRACE=1s MOST=6 SECONDS_EACH=100 SUBMIT='--gres=none --cpus-per-task=1 --mem=200M'
metric() { curl -s -H "authorization: Bearer $FW_METRICS_KEY" "$FW_SERVER/metrics" | awk -v name="$1" '$1 == name { print $2 }'; }

seq 900 | jq -c '{custom_id: "q-\(.)", method: "POST", url: "/v1/chat/completions", body: {model: "simulated-3b", messages: [{role: "user", content: "Is \(.) a prime?"}]}}' > input.jsonl
ask() { curl -s -H "authorization: Bearer $key" "$@"; }
file=$(ask "$FW_SERVER/v1/files" -F purpose=batch -F file=@input.jsonl | jq -r .id)
batch=$(ask "$FW_SERVER/v1/batches" -H 'content-type: application/json' \
  -d '{"input_file_id": "'"$file"'", "endpoint": "/v1/chat/completions", "completion_window": "24h"}' | jq -r .id)
all_wait() { [ "$(metric 'fw_shard_lines{state="queued"}')" = 900 ]; }
until_true 20 'all lines wait' all_wait

# three minutes less two: the signal comes within the first one
# shellcheck disable=SC2086 # several options
slow=$(LATENCY=600s sbatch --parsable --time=3 $SUBMIT "$root/deploy/slurm/workers.sbatch")
has_some() { [ "$(metric 'fw_shard_lines{state="running"}')" -gt 0 ]; }
until_true 60 'the slow worker has lines' has_some
echo "worker $slow has $(metric 'fw_shard_lines{state="running"}') of 900 lines, and answers none"
hands_back() { grep -q . "logs/fw-worker-$slow.log" && [ "$(scontrol show job "$slow" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p')" = COMPLETED ]; }
until_true 180 'it is told to stop before its time limit, and ends well' hands_back
until_true 20 'all lines wait again' all_wait
tail -n 3 "logs/fw-worker-$slow.log"

# no rate is known: a line is a second, 900 lines are nine workers, of which it may have six, of which four have a place
bash "$root/deploy/slurm/scale.sh"
jobs_that() { squeue -h --name fw-worker --states "$1" --format %A | wc -l; }
four_run() { [ "$(jobs_that RUNNING)" = 4 ] && [ "$(jobs_that PENDING)" = 2 ]; }
until_true 60 'four run and two wait' four_run
is_completed() { ask "$FW_SERVER/v1/batches/$batch" | jq -e '.status == "completed"' > /dev/null; }
until_true 120 'the batch is completed' is_completed
bash "$root/deploy/slurm/scale.sh"
none_waits() { [ "$(jobs_that PENDING)" = 0 ]; }
until_true 20 'those that waited are cancelled' none_waits
none_runs() { [ "$(jobs_that PENDING,RUNNING,COMPLETING)" = 0 ]; }
until_true 120 'idle workers end by themselves' none_runs
output=$(ask "$FW_SERVER/v1/batches/$batch" | jq -r .output_file_id)
ask "$FW_SERVER/v1/files/$output/content" > output.jsonl
[ "$(jq -r .custom_id output.jsonl | sort -u | wc -l)-$(wc -l < output.jsonl)" = 900-900 ]
echo "slurm.sh: 900 answers of workers in jobs, each once"
