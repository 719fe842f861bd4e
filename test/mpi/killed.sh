#!/bin/sh
# One of three ranks kills itself after the agreement: the launcher ends the job with an error, by itself.
# usage: killed.sh RANKS.SH MPIEXEC PROGRAM
set -eu
if out=$(sh "$1" "$2" 3 30 "$3" killed 2>&1); then
  echo "the job passed without one of its ranks"
  exit 1
else
  status=$?
fi
case $status in
  124 | 137) case $out in *HANG*) echo "$out"; exit 1 ;; esac ;;
esac
case $out in
  *"signal 9"*) echo "the job ended with status $status: a rank exited on signal 9" ;;
  *) echo "$out"; echo "the launcher does not say what happened"; exit 1 ;;
esac
