#!/bin/sh
# Start a program inside a cgroup, which all of its memory is then charged to.
# usage: enter.sh CGROUP PROGRAM [ARGUMENT...]
set -eu

echo $$ >"$1/cgroup.procs"
shift
exec "$@"
