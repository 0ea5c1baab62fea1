#!/bin/bash
# On NFS, in a user-mode Linux with an NFS server and clients: the tests of leases, locks and atomic files; two
# runs while the server is away; two processes that share rounds, each on a mount of its own.
#
#   tests/chaos/nfs_kernel.sh [FOLDER]        with .venv/bin/python, or $PYTHON below this folder
#
# As root, on Debian 12; FOLDER keeps the packages, which are unpacked, not installed (/tmp/nfs-kernel). The
# guest sees the files of this machine, exports a folder in its memory on its own loopback, and mounts it.
set -e
here=$(cd "$(dirname "$0")/../.." && pwd)

if [ -z "$NFS_FOLDER" ]; then
    folder=${1:-/tmp/nfs-kernel}
    mkdir -p "$folder/unpacked" "$folder/tree/lib/modules"
    cd "$folder"
    if [ ! -x unpacked/usr/bin/linux.uml ]; then
        apt-get download user-mode-linux nfs-kernel-server nfs-common libtirpc3 libevent-core-2.1-7 \
            libwrap0 kmod libkmod2 libnfsidmap1 keyutils
        for package in *.deb; do dpkg -x "$package" unpacked; done
    fi
    modules=$(echo "$folder"/unpacked/usr/lib/uml/modules/*)
    ln -sfn "$modules" tree/lib/modules/
    for name in depmod modprobe; do ln -sf "$folder/unpacked/bin/kmod" "$name"; done
    LD_LIBRARY_PATH="$folder/unpacked/lib/x86_64-linux-gnu" ./depmod -b tree "$(basename "$modules")"
    python=$here/${PYTHON:-.venv/bin/python}
    TMPDIR=/dev/shm exec unpacked/usr/bin/linux.uml mem=6G root=/dev/root rootfstype=hostfs rootflags=/ rw quiet \
        init="$here/tests/chaos/nfs_kernel.sh" con=null con0=null,fd:1 NFS_FOLDER="$folder" NFS_PYTHON="$python" \
        </dev/null
fi

# In the guest, as its first process.
trap 'echo o > /proc/sysrq-trigger; sleep 5' EXIT
unpacked=$NFS_FOLDER/unpacked
libraries=$unpacked/usr/lib/x86_64-linux-gnu:$unpacked/lib/x86_64-linux-gnu
export PATH=$PATH:/usr/sbin:/sbin:$unpacked/usr/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
for place in /run /dev/shm /var/lib /srv; do mkdir -p $place; mount -t tmpfs memory $place; done
mkdir -p /var/lib/nfs/v4recovery /srv/a /run/a /run/b /run/tmp
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
ip link set lo up
for module in nfsd nfsv4; do
    LD_LIBRARY_PATH=$libraries "$NFS_FOLDER/modprobe" -d "$NFS_FOLDER/tree" $module
done
mount -t nfsd nfsd /proc/fs/nfsd
server() { LD_LIBRARY_PATH=$libraries "$@"; }
server exportfs -i -o rw,no_root_squash,fsid=0,insecure,no_subtree_check 127.0.0.1:/srv
server rpc.mountd -N 2 -N 3
echo 10 > /proc/fs/nfsd/nfsv4gracetime
start() { server rpc.nfsd -H 127.0.0.1 -N 3 -V 4 -U 4; }
start
mount -i -t nfs4 127.0.0.1:/a /run/a -o vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1
mount -i -t nfs4 127.0.0.1:/a /run/b -o vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.2,nosharecache
mount -t nfs4
cd "$here"
export HOME=/run TMPDIR=/run/tmp OMP_NUM_THREADS=1 MALLOC_ARENA_MAX=1 PYTHONDONTWRITEBYTECODE=1
# A process can have only so many pieces of memory: they are few where memory is not in pieces.
fresh() { sync; echo 3 > /proc/sys/vm/drop_caches; echo 1 > /proc/sys/vm/compact_memory; }
play() { "$NFS_PYTHON" -m tests.chaos.nfs_runs "$@" 2>&1; }
set +e

echo "== tests"
"$NFS_PYTHON" -m pytest -q --tb=short -n0 --color=no -p no:cacheprovider --basetemp=/run/a/t \
    tests/engine/runtime/{leases/test_{lease,held_file},storage/test_atomic,round_cache/test_lock}.py 2>&1
fresh
echo "== runs without NFS"
play /run/plain fedavg sattler < /dev/null
fresh
echo "== runs on NFS; the server is away for four seconds after the first round"
play /run/a/one fedavg sattler < /dev/null > /run/played &
until ls /srv/a/one/*/state-000001.safetensors > /dev/null 2>&1; do sleep 0.1; done
server rpc.nfsd 0; sleep 4; start
wait $!
cat /run/played
fresh
echo "== two processes at once, each on a mount of its own"
go() { until [ -e /run/go ]; do sleep 0.1; done; }
go | play /run/a/two fedavg > /run/first &
go | play /run/b/two sattler > /run/second &
until grep -q waits /run/first && grep -q waits /run/second; do sleep 0.1; done
touch /run/go
wait
cat /run/first /run/second
