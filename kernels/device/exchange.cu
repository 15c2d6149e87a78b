// Point-to-point exchanges, for every element type.
#include "exchange.cuh"

extern "C" __global__ void __launch_bounds__(MSCCL_THREADS_MAX_EXCHANGE, MSCCL_BLOCKS_EACH)
    msccl_exchange(const __grid_constant__ msccl_exchange_launch launch) {
    msccl::exchange(launch);
}
