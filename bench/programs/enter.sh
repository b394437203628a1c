#!/bin/sh
# Become another program inside of a cgroup, so that all of its memory is charged there.
# usage: enter.sh CGROUP PROGRAM [ARGUMENT...]
set -eu

echo $$ >"$1/cgroup.procs"
shift
exec "$@"
