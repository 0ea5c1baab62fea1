#!/usr/bin/env bash
# A grid as a Slurm job: Ray on every machine of the allocation, `fedgrid run` on the first, from a checkout that
# all of them mount. Edit the lines marked EDIT, then, from the checkout's top folder (docs/slurm.md):
#
#   make .venv/installed && .venv/bin/ray get-auth-token --generate      # once
#   sbatch clusters/slurm.sh paper                                       # any option of fedgrid run
#
# After the time limit the same command continues the grid. After the failure of a machine, Slurm requeues the job.
#SBATCH --job-name=fedgrid
#SBATCH --nodes=4                        # EDIT
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16               # EDIT
#SBATCH --gpus-per-node=1                # EDIT: remove this line without GPUs
#SBATCH --time=24:00:00                  # EDIT
#SBATCH --signal=B:USR1@180              # three minutes before the time limit, to end the rounds under way
#SBATCH --requeue
#SBATCH --output=fedgrid-%j.log
#SBATCH --open-mode=append
set -euo pipefail

export FEDGRID_STORAGE=/scratch/$USER/fedgrid/runs    # EDIT: a folder that all machines mount
export FEDGRID_DATA=/scratch/$USER/fedgrid/data       # EDIT: likewise
export PATH=$SLURM_SUBMIT_DIR/.venv/bin:$PATH
export RAY_AUTH_MODE=token                            # one token for all: ~/.ray/auth_token in the shared home
export RAY_ENABLE_UV_RUN_RUNTIME_ENV=0
export RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S=0        # Ray has nothing to wait for when it is told to end
export RAY_START_HOOK=fedgrid.grids.ray_cluster.start_hook.only_what_a_grid_uses
export OMP_NUM_THREADS=1

address=$(hostname --all-ip-addresses | cut --delimiter=' ' --fields=1)   # EDIT if a machine has several
if [ "$SLURM_JOB_NUM_NODES" = 1 ]; then
    address=127.0.0.1
    export RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0        # Ray's name for: other machines may connect
fi

# In a step: Ray until the step ends, in a folder of its own that only this user can read; $1 if it is there. It lies
# in /tmp because a socket's path has at most 107 characters. No port is fixed: jobs can share a machine.
# SIGTERM reaches Ray too, and the shell waits for it.
# shellcheck disable=SC2016
ray='
    folder=$1; shift
    [ -n "$folder" ] || folder=$(mktemp --directory "/tmp/fedgrid-$SLURM_JOB_ID.XXXXXX")
    asked=
    trap "asked=yes" TERM
    code=0
    ray start --block --temp-dir="$folder/ray" --num-cpus="$SLURM_CPUS_PER_TASK" --num-gpus="${SLURM_GPUS_ON_NODE:-0}" \
        --min-worker-port=0 --max-worker-port=0 --dashboard-agent-listen-port=0 --include-log-monitor=false \
        --log-color=false "$@" > "$folder/log" 2>&1 || code=$?
    if [ -n "$asked" ]; then code=0; else cat "$folder/log" >&2; fi
    rm -rf "$folder"
    exit "$code"
'
# Slurm ends a step with the job, also where it knows processes only by their parents. If one fails, others go on.
step=(srun --overlap --cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=0)

folder=$(mktemp --directory "/tmp/fedgrid-$SLURM_JOB_ID.XXXXXX")
"${step[@]}" --nodes=1 --ntasks=1 --nodelist="$SLURMD_NODENAME" bash -c "$ray" ray "$folder" \
    --head --node-ip-address="$address" --port=0 --disable-usage-stats &
head=$!
trap 'scancel --quiet --signal=TERM "$SLURM_JOB_ID" || true; wait; rm -rf "$folder"' EXIT
until [ -s "$folder/ray/ray_current_cluster" ]; do
    kill -0 "$head"
    sleep 0.2
done
RAY_ADDRESS=$(< "$folder/ray/ray_current_cluster")
export RAY_ADDRESS

others=$((SLURM_JOB_NUM_NODES - 1))
if [ "$others" -gt 0 ]; then
    "${step[@]}" --nodes="$others" --ntasks="$others" --exclude="$SLURMD_NODENAME" bash -c "$ray" ray '' \
        --address="$RAY_ADDRESS" &
    # A grid is planned for the machines that are there when it starts.
    python -m fedgrid.grids.ray_cluster.joined "$SLURM_JOB_NUM_NODES"
fi

fedgrid run "$@" &
driver=$!
trap 'kill -TERM "$driver" || true' USR1    # it ends the rounds under way, and then itself
# Slurm sends SIGTERM to all processes. Told twice, the driver ends at once. This shell, its parent, waits for it: else
# Slurm could lose it.
trap 'sleep 1; kill -TERM "$driver" || true' TERM
while kill -0 "$driver" 2> /dev/null; do wait "$driver" || true; done
wait "$driver"
