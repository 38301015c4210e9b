#!/bin/sh
# Runs N parts of a run with GNU parallel and merges them: parallel.sh NAME N [arguments of agentv run]
#
# All parts run on this machine. With PARALLEL='--sshlogin one,two --workdir .' they run on others that see this folder.
set -eu
name=$1
parts=$2
shift 2
here=$(dirname "$0")

# A part that ended early makes the merged run incomplete, so the verdict is merge.sh's.
seq "$parts" | parallel --jobs "${JOBS:-$parts}" "$here/shard.sh" "$name" {} "$parts" "$@" || true
exec "$here/merge.sh" "$name" "$parts"
