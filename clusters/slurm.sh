#!/usr/bin/env bash
# A grid as a Slurm job: Ray on every machine of the allocation, `fedgrid run` on the first, from a checkout that
# all of them mount. Edit the lines marked EDIT, then, from the checkout's top folder:
#
#   make .venv/installed && .venv/bin/ray get-auth-token --generate      # once
#   sbatch clusters/slurm.sh paper                                       # any option of fedgrid run
#
# The same command after the time limit, or after the first machine failed, continues the grid.
#SBATCH --job-name=fedgrid
#SBATCH --nodes=4                        # EDIT
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16               # EDIT
#SBATCH --gpus-per-node=1                # EDIT: remove this line without GPUs
#SBATCH --time=24:00:00                  # EDIT
#SBATCH --output=fedgrid-%j.log
set -euo pipefail

export FEDGRID_STORAGE=/scratch/$USER/fedgrid/runs    # EDIT: a folder that all machines mount
export FEDGRID_DATA=/scratch/$USER/fedgrid/data       # EDIT: likewise
export PATH=$SLURM_SUBMIT_DIR/.venv/bin:$PATH
export RAY_AUTH_MODE=token                            # one token for all: ~/.ray/auth_token in the shared home
export RAY_ENABLE_UV_RUN_RUNTIME_ENV=0
export OMP_NUM_THREADS=1

head=$(hostname --all-ip-addresses | cut --delimiter=' ' --fields=1)   # EDIT if a machine has several
# A port derived from the job's number, so that two jobs can share a machine.
export RAY_ADDRESS=$head:$((20000 + SLURM_JOB_ID % 10000))
others=$((SLURM_JOB_NUM_NODES - 1))

ray start --head --node-ip-address="$head" --port="${RAY_ADDRESS#*:}" --num-cpus="$SLURM_CPUS_PER_TASK" \
    --dashboard-host=127.0.0.1 --disable-usage-stats
if [ "$others" -gt 0 ]; then
    # They end with the job. If one fails, the others go on.
    srun --nodes="$others" --ntasks="$others" --exclude="$SLURMD_NODENAME" --kill-on-bad-exit=0 \
        ray start --address="$RAY_ADDRESS" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
fi
fedgrid run "$@"
