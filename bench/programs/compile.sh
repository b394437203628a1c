#!/bin/bash
# Compile the Java service inside of the disk that mmdebstrap makes.
# usage: compile.sh ROOT SOURCE
set -euo pipefail

root=$1
install -D -m 0644 "$2" "$root/opt/bench/Service.java"
# Java finds its own libraries by it. This is a mount namespace of its own.
mount -t proc proc "$root/proc"
chroot "$root" javac -d /opt/bench /opt/bench/Service.java
umount "$root/proc"
