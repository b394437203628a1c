#!/bin/bash
# Run sshd for simulated hosts in a mount namespace of its own, which leaves this machine's mounts alone.
# usage: unshare --mount serve.sh HOSTS PASSWD SSHD CONFIG
# Each directory in HOSTS is the root of a host. SSHD is sshd with an absolute path, as it insists on.
set -euo pipefail

hosts=$1
passwd=$2
sshd=$3
config=$4

# Programs and libraries are this machine's, mounted read-only. There is no sbin: a simulated host needs nothing from it.
for host in "$hosts"/*/; do
    for part in bin lib lib64; do
        [ -d "/usr/$part" ] || continue
        mount --bind "/usr/$part" "$host/usr/$part"
        mount -o remount,bind,ro "$host/usr/$part"
    done
    mount --bind /dev "$host/dev"
done

mount --bind "$passwd" /etc/passwd
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir /run/sshd

# A simulated host must not be able to stop or change the machine it runs on.
exec setpriv --bounding-set=-sys_boot,-sys_module,-sys_time "$sshd" -D -e -f "$config"
