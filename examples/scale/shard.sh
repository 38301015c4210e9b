#!/bin/sh
# Runs part I of N of a run, or continues it if an earlier attempt stored it: shard.sh NAME I N [arguments of agentv run]
#
# QUOTA may be the URL of a database that shares rate limits and a budget. Exit code 0: the part is complete, and the
# verdict is left to merge.sh. Any other is that of agentv.
set -eu
part="$1-$2-of-$3"
shard="$2/$3"
shift 3

code=0
agentv show "$part" >/dev/null 2>&1 || code=$?
if [ "$code" = 4 ]; then # there is no run of this name
  set -- run --name "$part" --shard "$shard" "$@"
else
  set -- resume "$part"
fi

# When the scheduler ends this script, agentv has to end as well: it then stores what it has.
trap 'kill -TERM "$!"' INT TERM
agentv "$@" ${QUOTA:+--quota "$QUOTA"} &
code=0
wait "$!" || code=$?
while kill -0 "$!" 2>/dev/null; do # a signal ended the wait, not agentv
  code=0
  wait "$!" || code=$?
done

case "$code" in
  1) exit 0 ;; # a gate failed on this part alone
  5) exit 0 ;; # no case is in this part
  *) exit "$code" ;;
esac
