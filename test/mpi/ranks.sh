#!/bin/sh
# Runs a program on several ranks of this machine, with an end. Environment: MCA, further words for the
# launcher. usage: ranks.sh MPIEXEC RANKS SECONDS PROGRAM ARGUMENT...
set -eu
mpiexec=$1 ranks=$2 seconds=$3
shift 3
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_mpi_yield_when_idle=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_btl_tcp_if_include OMPI_MCA_oob_tcp_if_include \
  OMPI_MCA_mpi_yield_when_idle
# shellcheck disable=SC2086 # words are meant
if timeout -k 5 "$seconds" "$mpiexec" --oversubscribe --bind-to none ${MCA:-} -np "$ranks" "$@"; then
  status=0
else
  status=$?
fi
[ $status != 124 ] || echo "HANG: $ranks ranks did not end within $seconds seconds"
exit $status
