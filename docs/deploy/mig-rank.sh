#!/usr/bin/env bash
# Runs a command on the MIG slice of this rank: a process can use no more than one.
#
#   torchrun --nproc-per-node 7 --no-python mig-rank python train.py
#   mig-rank msccl bench allreduce
set -euo pipefail

rank=${LOCAL_RANK:-${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${SLURM_LOCALID:-0}}}}
mapfile -t slices < <(nvidia-smi -L | grep -o 'MIG-[0-9a-f-]*')
if [ "${#slices[@]}" -eq 0 ]; then
    echo "mig-rank: nvidia-smi -L lists no MIG slice" >&2
    exit 2
fi
export CUDA_VISIBLE_DEVICES=${slices[rank % ${#slices[@]}]}
exec "$@"
