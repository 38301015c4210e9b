#!/bin/sh
# Merges the parts of a run that are stored, and prints the verdict on all: merge.sh NAME N [options of agentv merge]
#
# A part without a case is not stored. One that is missing makes the merged run incomplete (exit code 3).
set -eu
name=$1
parts=$2
shift 2
for number in $(seq "$parts"); do
  part="$name-$number-of-$parts"
  code=0
  agentv show "$part" >/dev/null 2>&1 || code=$?
  [ "$code" = 4 ] || set -- "$@" "$part" # 4: there is no run of this name
done
exec agentv merge "$@"
