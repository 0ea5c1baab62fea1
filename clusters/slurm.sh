#!/usr/bin/env bash
# A grid as a Slurm job: Ray on every machine of the allocation, `fedgrid run` on the first, from a checkout that
# all of them mount. Edit what is marked EDIT, then, from the checkout's top folder:
#
#   make .venv/installed && .venv/bin/ray get-auth-token --generate      # once
#   sbatch clusters/slurm.sh paper                                       # any option of fedgrid run
#
# The same command after the time limit, or after a machine failed, continues the grid.
#SBATCH --job-name=fedgrid
#SBATCH --nodes=4                        # EDIT
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16               # EDIT
#SBATCH --gpus-per-task=1                # EDIT: leave out where there are none
#SBATCH --time=24:00:00                  # EDIT
#SBATCH --output=fedgrid-%j.log
set -euo pipefail

export FEDGRID_STORAGE=/scratch/$USER/fedgrid/runs    # EDIT: a folder that all machines mount
export FEDGRID_DATA=/scratch/$USER/fedgrid/data       # EDIT: another
export PATH=$SLURM_SUBMIT_DIR/.venv/bin:$PATH
export RAY_AUTH_MODE=token                            # one token for all: ~/.ray/auth_token in the shared home
export RAY_ENABLE_UV_RUN_RUNTIME_ENV=0
export RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=300     # seconds; machines with a cold disk need minutes
export OMP_NUM_THREADS=1

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# The port is the job's own, so that two jobs can share a machine.
port=$((20000 + SLURM_JOB_ID % 10000))

gpus=${SLURM_GPUS_PER_TASK:-0}
srun --kill-on-bad-exit=0 ray symmetric-run --address "$head:$port" --min-nodes "$SLURM_JOB_NUM_NODES" \
    --num-cpus="$SLURM_CPUS_PER_TASK" --num-gpus="${gpus##*:}" --dashboard-host=127.0.0.1 \
    -- fedgrid run "$@"
