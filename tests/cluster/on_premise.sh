#!/usr/bin/env bash
# cluster.yaml for real, on this host alone: `ray up`, `fedgrid submit`, a lost machine, `ray down`.
#
#   sudo tests/cluster/on_premise.sh          # as root; apt-get install openssh-server rsync iproute2
#
# Three "machines", a laptop, a head and a worker, are Linux namespaces with the addresses of cluster.yaml. Each has
# its own processes, network, /tmp and home folder; head and worker also have an ssh server. They are not connected
# to any other network, and are removed when the laptop's first process ends. Unlike real machines they share one
# thing: .venv is a link to this checkout's, so that `make .venv/installed` has nothing to download.
set -euo pipefail

checkout=$(cd "$(dirname "$0")/../.." && pwd)
export PATH=$checkout/.venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# Sessions of ssh do not have it: the laptop would add up by other kernels, to other last bits.
unset OPENBLAS_CORETYPE
grid=tests/cluster/small.yaml

say() { printf '\n# %s\n' "$*"; }
show() { printf '\n$ %s\n' "$*"; "$@"; }
fail() { echo "on_premise.sh: $*" >&2; exit 1; }

# Run function $2 of this script as the first process of a machine named $1.
as_machine() {
    exec unshare --mount --pid --net --uts --ipc --fork --kill-child --mount-proc "$checkout/tests/cluster/on_premise.sh" --inside "$@"
}

# Set up what all machines have: a name, own /tmp, /run and shared memory, a home folder, the shared storage.
settle() {
    hostname "$1"
    export HOME=$work/$1
    mkdir -p "$HOME"
    # A checkout below one of these would be hidden: it is held elsewhere meanwhile.
    mount --bind "$checkout" "$work/checkout"
    for folder in /tmp /run /srv /dev/shm; do mount -t tmpfs none "$folder"; done
    mkdir -p "$checkout"
    mount --bind "$work/checkout" "$checkout"
    mkdir -p /run/sshd /srv/fedgrid
    mount --bind "$work/shared" /srv/fedgrid
    { echo "root:*:0:0::$HOME:/bin/bash"; echo "fedgrid:*:0:0::$HOME:/bin/bash"; grep -v ^root: /etc/passwd; } \
        > "/tmp/passwd"
    mount --bind /tmp/passwd /etc/passwd
    ip link set lo up
    cd "$HOME"
}

server() {
    settle "$1"
    mkdir -p .ssh fedgrid
    cp "$work/laptop/.ssh/id_ed25519.pub" .ssh/authorized_keys
    ssh-keygen -q -t ed25519 -N '' -f .ssh/host_key
    cp -r /etc/skel/. .
    ln -s "$checkout/.venv" fedgrid/.venv
    until ip link set eth0 up 2> /dev/null; do sleep 0.1; done
    ip address add "$2/24" dev eth0
    ip route add default via 192.168.0.1
    exec /usr/sbin/sshd -D -f /dev/null -o ListenAddress="$2" -o HostKey="$HOME/.ssh/host_key" -o UsePAM=no \
        -o AuthorizedKeysFile="$HOME/.ssh/authorized_keys" -o PasswordAuthentication=no -o PidFile=none \
        -o StrictModes=no
}

# Start a server and connect it to the laptop's switch; set pid to its process.
plug_in() {
    as_machine "$1" server "$2" &
    pid=$!
    disown
    until [ "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
    ip link add "$1" type veth peer name eth0 netns "$pid"
    ip link set "$1" master switch up
}

# Run a command of Ray without the lines that it prints every time.
with_ray() {
    echo
    echo "\$ ray ${*@Q}"
    ray "$1" --log-style pretty --log-color false "${@:2}" 2>&1 | grep -v -e ' refers to a file' -e 'To ensure this mount' \
        -e 'cached provider' -e no-config-cache -e 'cluster state:' -e '^Shared connection' -e '^Fetched IP'
}

# Print in how many runs' manifests there is a line like this.
runs_with() { grep -lsE "$1" /srv/fedgrid/runs/*/manifest.json | wc -l; }

laptop() {
    settle laptop
    mkdir -p .ssh
    ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519
    ip link add switch type bridge
    ip address add 192.168.0.1/24 dev switch
    ip link set switch up
    plug_in head 192.168.0.10
    plug_in worker 192.168.0.11
    worker=$pid
    export RAY_USAGE_STATS_ENABLED=0
    cd "$checkout"

    show ray get-auth-token --generate > /dev/null
    with_ray up --yes cluster.yaml
    with_ray exec cluster.yaml 'until ray status | grep -q "2 local.cluster.node"; do sleep 1; done; ray status'
    say 'What listens on the head beyond its loopback:'
    with_ray exec cluster.yaml 'ss -ltnpH | grep -v 127.0.0.1 | sort -u'

    show fedgrid submit "$grid" --cluster cluster.yaml > "$HOME/submit.log" 2>&1 &
    submit=$!
    until [ "$(runs_with '"rounds_done": [1-9]')" = 4 ]; do
        kill -0 "$submit" 2> /dev/null || { cat "$HOME/submit.log"; fail "the job ended too early"; }
        sleep 0.2
    done
    kill -KILL "$worker"
    say "All four runs have started, $(runs_with '"finished": true') are finished. The worker was killed."
    code=0
    wait "$submit" || code=$?
    cat "$HOME/submit.log"
    say "Exit code $code; $(runs_with '"finished": true') runs are finished."
    [ "$code" = 0 ] || fail "the grid should have succeeded"
    ! grep 'not in MLflow yet' "$HOME/submit.log" || fail "MLflow should have all runs"

    with_ray down --yes cluster.yaml
    say 'Ray processes left on the head:'
    ssh -i "$HOME/.ssh/id_ed25519" -o StrictHostKeyChecking=no fedgrid@192.168.0.10 'pgrep -c raylet || true'

    say 'The same grid on the laptop, without Ray and undisturbed:'
    show fedgrid run "$grid" --in-process --storage "$HOME/runs" > /dev/null
    (cd "$HOME/runs" && find . -mindepth 2 -maxdepth 2 -name '*.parquet' ! -name timings.parquet | sort) |
        while read -r path; do
            cmp "$HOME/runs/$path" "/srv/fedgrid/runs/$path"
            echo "same bytes: $path"
        done
}

if [ "${1:-}" = --inside ]; then
    name=$2 function=$3
    shift 3
    "$function" "$name" "$@"
    exit
fi

[ "$(id -u)" = 0 ] || fail "needs root, to make namespaces"
for tool in unshare ip sshd ssh-keygen rsync; do
    command -v "$tool" > /dev/null || fail "no $tool: apt-get install util-linux iproute2 openssh-server rsync"
done
make --silent -C "$checkout" .venv/installed
# Not in /tmp, which is each machine's own.
work=$(mktemp -d /var/tmp/fedgrid.XXXXXX)
export work
trap 'rm -rf --one-file-system "$work"' EXIT
mkdir "$work/shared" "$work/checkout"
(as_machine laptop laptop)
