#!/bin/sh
# Writes the table of estimates for several nodes of eight GPUs, nodes.tuning, by the cost model:
#   crates/select/tuning/nodes.sh target/release/msccl > crates/select/tuning/nodes.tuning
# Takes three minutes on two cores; run it where the model or its rates changed much. Thread
# blocks are limited: with one for each peer, connections and proxies take more than the model says.
set -eu
msccl=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for nodes in 2 3 4 6 8 12 16; do
    table="$folder/$nodes"
    for collective in allreduce allgather reducescatter alltoall broadcast reduce gather scatter; do
        if ! "$msccl" tune "$collective" --estimate --ranks $((8 * nodes)) --per-node 8 -f 4 \
            -b 1K -e 256M --blocks-at-most 64 --keep "$table" -o "$table" > "$folder/report" 2>&1; then
            cat "$folder/report" >&2
            exit 1
        fi
    done
done
echo "# Estimated, measured nowhere: nodes.sh makes it, by \`msccl tune --estimate\`. Assumes an H200"
echo "# for each rank, nodes of eight with NVSwitch, a NIC of 400 Gbit/s for each GPU, one switch"
echo "# between nodes, rates of 2 × NVIDIA H200, and at most 64 thread blocks a rank."
echo "msccl-tuning 2"
echo "machine the cost model: nodes like HGX H200 with 8 GPUs and a NIC for each"
for nodes in 2 3 4 6 8 12 16; do
    grep -v -e '^#' -e '^msccl-tuning' -e '^machine' "$folder/$nodes"
done
