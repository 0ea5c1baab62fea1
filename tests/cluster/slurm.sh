#!/usr/bin/env bash
# clusters/slurm.sh for real, on this host alone: time limit, a lost machine, requeue, two jobs on a machine, GPUs.
#
#   sudo tests/cluster/slurm.sh               # as root; apt-get install slurm-wlm munge iproute2
#
# Three "machines", a login machine with Slurm's controller and two compute nodes, are Linux namespaces. Each has its
# own processes, network, /tmp and munge; home folder and storage are shared, as under Slurm. They are not connected to
# any other network, and are removed when the login machine's first process ends. Slurm tracks processes by their
# parents (proctrack/linuxproc), which loses more of them than cgroups do. The GPUs are device files without a device.
set -euo pipefail

checkout=$(cd "$(dirname "$0")/../.." && pwd)
export PATH=$checkout/.venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
grid=(tests/cluster/small.yaml training.rounds=200)

say() { printf '\n# %s\n' "$*"; }
show() { printf '\n$ %s\n' "$*"; "$@"; }
fail() { echo "slurm.sh: $*" >&2; exit 1; }

# Run function $2 of this script as the first process of a machine named $1.
as_machine() {
    exec unshare --mount --pid --net --uts --ipc --fork --kill-child --mount-proc "$checkout/tests/cluster/slurm.sh" --inside "$@"
}

# Set up what all machines have: a name, own /tmp, /run and shared memory, munge.
settle() {
    hostname "$1"
    export HOME=$work/home SLURM_CONF=$work/slurm.conf
    # A checkout below one of these would be hidden: it is held elsewhere meanwhile.
    mount --bind "$checkout" "$work/checkout"
    for folder in /tmp /run /dev/shm; do mount -t tmpfs none "$folder"; done
    mkdir -p "$checkout"
    mount --bind "$work/checkout" "$checkout"
    mount --bind "$work/hosts" /etc/hosts
    ip link set lo up
    mkdir /run/munge
    munged --key-file="$work/munge.key" --log-file=/run/munge/log --pid-file=/run/munge/pid --seed-file=/run/munge/seed
    cd "$checkout"
}

node() {
    settle "$1"
    mknod /run/gpu0 c 1 3
    mknod /run/gpu1 c 1 3
    until ip link set eth0 up 2> /dev/null; do sleep 0.1; done
    ip address add "$2/24" dev eth0
    slurmd -D >> "$work/log/$1" 2>&1 &
    wait
}

# Start node $1 and connect it to the login machine's switch; set first[$1] to its first process.
plug_in() {
    as_machine "$1" node "${address[$1]}" 2>> "$work/log/$1" &
    local outer=$!
    disown
    until first[$1]=$(pgrep --parent "$outer"); do sleep 0.1; done
    ip link add "$1" type veth peer name eth0 netns "${first[$1]}"
    ip link set "$1" master switch up
}

# Print the processes of both nodes that are not the machine's own.
processes() {
    for name in n1 n2; do
        pgrep --ns "${first[$name]}" --nslist pid --list-full . | grep -v -e ' --inside ' -e munged -e 'slurmd -D' || true
    done
}

# States of jobs that have ended.
ended='COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL'
state() { squeue --noheader --states=all --jobs="$1" --format=%T; }

# Submit the job: options of sbatch, --, those of fedgrid run. Set job to its number, log to its output.
submit() {
    local options=()
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    printf '\n$ sbatch %s clusters/slurm.sh %s\n' "${options[*]}" "${*:2}"
    job=$(sbatch --parsable --output="$work/log/job-%j" "${options[@]}" "$work/job.sh" "${@:2}")
    log=$work/log/job-$job
    touch "$log"
}

# Wait until the job's output has as many lines with this text as $2 says.
until_said() {
    local end=$((SECONDS + 180))
    until [ "$(grep --count -e "$1" "$log")" -ge "$2" ]; do
        [ "$SECONDS" -lt "$end" ] || { cat "$log"; scontrol show job "$job"; fail "job $job says nothing"; }
        [[ $(state "$job") != @($ended) ]] || { cat "$log"; fail "job $job ended too early"; }
        sleep 0.2
    done
}

# Wait for five more rounds than are in the job's output.
until_rounds() { until_said ' round ' $(($(grep --count ' round ' "$log" || true) + 5)); }

# Wait until the job has ended in this state; PENDING: until it waits again. Then nothing of it may be left.
until_ended() {
    until [[ $(state "$job") = @("$1"|$ended) ]]; do sleep 0.2; done
    [ "$(state "$job")" = "$1" ] || { cat "$log"; fail "job $job is $(state "$job"), not $1"; }
    # Ray's workers notice within a second or two that the process that started them has ended.
    for _ in {1..5}; do
        left=$(processes)
        [ -n "$left" ] || break
        sleep 1
    done
    [ -z "$left" ] || fail "job $job has left processes behind: $left"
    echo "Job $job is $1, and no process is left."
}

# Print the job's output without its rounds and its table.
show_log() { sed -e '/ round /d' -e '/^Final round/,/^pers/d' -e 's/^/    /' "$log"; }

# What listens on the first node, apart from slurmd and srun.
ports() { nsenter --net --target "${first[n1]}" ss -ltnpH | grep -v -e slurmd -e srun | sort -u; }

# A grid on two nodes: time limit, the same command again, a lost node, the other one alone, requeued, finished.
interruptions() {
    local options=(--nodes=2 --cpus-per-task=2 --gpus-per-node=0 --time=60 -- "${grid[@]}")
    submit "${options[@]}"
    until_rounds
    say 'What listens on the first node beyond its loopback:'
    ports | grep -v ' 127.0.0.1:'
    ! ports | grep -w -e 10001 -e 8265 -e 44227 -e 52365 || fail "another job could not have this port"
    show scontrol update "jobid=$job" timelimit=3
    until_ended FAILED
    show_log
    grep --quiet 'interrupted; the same command continues' "$log" || fail "the job should have been interrupted"

    submit "${options[@]}"
    until_rounds
    kill -KILL "${first[n1]}"
    say 'The first node was killed.'
    until_ended PENDING
    show scontrol update "jobid=$job" numnodes=1 numtasks=1 starttime=now
    until_rounds
    show squeue
    plug_in n1
    until [ "$(sinfo --noheader --states=idle --format=%D)" = 1 ]; do sleep 0.2; done
    say 'It is back.'
    show scontrol requeue "$job"
    until_ended PENDING
    show scontrol update "jobid=$job" numnodes=2 numtasks=2 starttime=now
    until_ended COMPLETED
    show_log

    say 'The same grid without Slurm and Ray, undisturbed:'
    show fedgrid run "${grid[@]}" --in-process --storage "$work/alone" > /dev/null
    (cd "$work/alone" && find . -mindepth 2 -maxdepth 2 -name '*.parquet' ! -name timings.parquet | sort) |
        while read -r path; do
            cmp "$work/alone/$path" "$HOME/fedgrid/runs/$path"
            echo "same bytes: $path"
        done
}

# Two jobs on one node; one of them is cancelled.
side_by_side() {
    local options=(--nodes=1 --cpus-per-task=2 --gpus-per-node=0 --nodelist=n1) cancelled
    submit "${options[@]}" -- "${grid[@]}" --seeds 7..8
    until_rounds
    cancelled=$job
    submit "${options[@]}" -- quickstart training.rounds=4
    until_said ' round ' 1
    [ "$(state "$cancelled")" = RUNNING ] || { cat "$work/log/job-$cancelled"; fail "both jobs should be running"; }
    show squeue
    ! ports | grep -v '127.0.0.1\]\?:' || fail "a job of one node should listen on its loopback only"
    show scancel "$cancelled"
    while [ "$(state "$cancelled")" != CANCELLED ]; do sleep 0.2; done
    until_ended COMPLETED
    for log in "$work/log/job-$cancelled" "$log"; do show_log; done
}

# Jobs with one GPU of each node, with the other one, and with none. A look at Ray takes the place of fedgrid.
gpus() {
    local programs=$work/gpus/.venv/bin logs=()
    mkdir -p "$programs"
    for name in ray python; do
        printf '#!/bin/sh\nexec "%s" "$@"\n' "$checkout/.venv/bin/$name" > "$programs/$name"
    done
    printf '#!/bin/sh\ncd "%s"; exec python -m tests.cluster.granted\n' "$checkout" > "$programs/fedgrid"
    chmod +x "$programs"/*
    cd "$work/gpus"
    for number in 1 1 0; do
        submit --nodes=2 --cpus-per-task=1 --gpus-per-node="$number" --
        until_said GPUs 2
        cat "$log"
        logs+=("$log")
    done
    cd "$checkout"
    [ "$(grep --no-filename --only-matching ' 1 GPUs.*' "${logs[@]}" | sort | uniq -c)" = "$(
        printf '      2  1 GPUs, CUDA_VISIBLE_DEVICES of a task: %s\n' 0 1)" ] || fail "each GPU should be of one job"
    [ "$(grep --count ' 0 GPUs' "$log")" = 2 ] || fail "a job without GPUs should see none"
    scancel --me
    until_ended CANCELLED
}

# What doctor says in a job: what Slurm has granted, and that the GPU is none.
doctor() {
    local said
    printf '\n$ srun --nodes=1 --cpus-per-task=2 --gpus-per-node=1 --time=10 fedgrid doctor\n'
    said=$(srun --nodes=1 --cpus-per-task=2 --gpus-per-node=1 --time=10 fedgrid doctor --storage "$HOME/fedgrid/runs" 2> /dev/null) || true
    sed -n -e '/^Slurm/,/^Ray/{/^Ray/d;p}' -e '/^missing/p' <<< "$said"
    for line in ', on 1 nodes' ' n[12]$' ' 2 a task; this process may use 2' ' 1 on this node; CUDA_VISIBLE_DEVICES=0' \
        'missing: GPUs: the 1 GPUs that Slurm has granted here'; do
        grep --quiet -e "$line" <<< "$said" || fail "doctor does not say: $line"
    done
}

login() {
    declare -gA address=([n1]=192.168.0.11 [n2]=192.168.0.12) first=()
    settle login
    ip link add switch type bridge
    ip address add 192.168.0.1/24 dev switch
    ip link set switch up
    slurmctld -D > "$work/log/login" 2>&1 &
    disown
    plug_in n1
    plug_in n2
    ray get-auth-token --generate > /dev/null 2>&1
    # What a user edits: the storage. The numbers of machines, cores and GPUs are options of sbatch here.
    # shellcheck disable=SC2016
    sed 's|/scratch/$USER|$HOME|' clusters/slurm.sh > "$work/job.sh"
    until [ "$(sinfo --noheader --states=idle --format=%D 2> /dev/null)" = 2 ]; do sleep 0.2; done
    show sinfo
    interruptions
    side_by_side
    gpus
    doctor
    say 'All is as it should be.'
}

if [ "${1:-}" = --inside ]; then
    name=$2 function=$3
    shift 3
    "$function" "$name" "$@"
    exit
fi

[ "$(id -u)" = 0 ] || fail "needs root, to make namespaces"
for tool in unshare nsenter ip munged slurmctld slurmd sbatch; do
    command -v "$tool" > /dev/null || fail "no $tool: apt-get install util-linux iproute2 slurm-wlm munge"
done
make --silent -C "$checkout" .venv/installed
# Not in /tmp, which is each machine's own.
work=$(mktemp -d /var/tmp/fedgrid.XXXXXX)
export work
trap 'rm -rf --one-file-system "$work"' EXIT
mkdir "$work/home" "$work/log" "$work/state" "$work/checkout"
(umask 077; head --bytes=1024 /dev/urandom > "$work/munge.key")
printf '127.0.0.1 localhost\n192.168.0.1 login\n192.168.0.11 n1\n192.168.0.12 n2\n' > "$work/hosts"
cat > "$work/slurm.conf" << END
ClusterName=fedgrid
SlurmctldHost=login
SlurmUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
AuthInfo=cred_expire=5
SlurmdTimeout=10
SlurmdParameters=config_overrides
StateSaveLocation=$work/state
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
GresTypes=gpu
NodeName=n[1-2] CPUs=4 RealMemory=4000 Gres=gpu:2
PartitionName=all Nodes=ALL Default=YES State=UP
END
echo 'NodeName=n[1-2] Name=gpu File=/run/gpu[0-1]' > "$work/gres.conf"
(as_machine login login)
