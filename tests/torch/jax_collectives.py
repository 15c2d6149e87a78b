"""Collectives of JAX over all GPUs of this process, compared with what they must give.

    LD_PRELOAD=.../libnccl.so.2 python jax_collectives.py
    python jax_collectives.py --cpu 4      # tests the script: JAX has collectives of its own there

Numbers are small integers, so every order of additions gives the same.
"""

import argparse
import faulthandler
import os
import sys

sys.dont_write_bytecode = True
import launch

#: Rows that a rank has for each rank.
ROWS_PER_RANK = 8
COLUMNS = 1024
#: How long all of it may take.
LIMIT_S = 300


def checks(jax, ranks):
    """By name: what a rank does, and what all ranks must have together, as rows of ranks."""
    import numpy as np

    lax = jax.lax
    ring = [(rank, (rank + 1) % ranks) for rank in range(ranks)]
    return {
        "psum": (lambda x: lax.psum(x, "r"), lambda x: np.repeat(x.sum(0)[None], ranks, 0)),
        "pmax": (lambda x: lax.pmax(x, "r"), lambda x: np.repeat(x.max(0)[None], ranks, 0)),
        "all_gather": (lambda x: lax.all_gather(x, "r", tiled=True),
                       lambda x: np.repeat(x.reshape(1, -1, x.shape[-1]), ranks, 0)),
        "all_to_all": (lambda x: lax.all_to_all(x, "r", 0, 0, tiled=True),
                       lambda x: x.reshape(ranks, ranks, -1, x.shape[-1])
                       .swapaxes(0, 1).reshape(x.shape)),
        "ppermute": (lambda x: lax.ppermute(x, "r", ring), lambda x: np.roll(x, 1, 0)),
        "psum_scatter": (lambda x: lax.psum_scatter(x, "r", tiled=True),
                         lambda x: x.sum(0).reshape(ranks, -1, x.shape[-1])),
    }


def check(jax, mesh, name, body, expected, dtype, turns):
    """Whether `name` gives what it must in each of some calls of one compiled program."""
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec

    ranks, rows = mesh.size, ROWS_PER_RANK * mesh.size
    split = PartitionSpec("r")
    program = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=split, out_specs=split,
                                    check_vma=False))
    right = True
    for turn in range(turns):
        generator = np.random.default_rng(turn)
        values = generator.integers(-8, 8, (ranks, rows, COLUMNS)).astype(np.float32)
        flat = values.reshape(ranks * rows, COLUMNS)
        given = jax.device_put(jax.numpy.asarray(flat, dtype), NamedSharding(mesh, split))
        found = np.asarray(program(given).astype(np.float32))
        right &= np.array_equal(found, expected(values).reshape(found.shape))
    print(f"{'ok' if right else 'WRONG':5}  {name} of {jax.numpy.dtype(dtype).name}", flush=True)
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu", type=int, metavar="N", help="N devices of the host, no GPUs")
    parser.add_argument("--turns", type=int, default=5, help="calls of each kind (default 5)")
    parser.add_argument("--expect-library", metavar="TEXT",
                        help="fail unless the path of the preloaded library contains this")
    args = parser.parse_args()
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    if args.cpu:
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={args.cpu}"
    try:
        import jax
    except ImportError as error:
        print(f"SKIPPED: JAX is not installed: {error}")
        return
    devices = jax.devices()
    if len(devices) < 2 or (devices[0].platform != "gpu" and not args.cpu):
        print(f"SKIPPED: two GPUs are needed, JAX {jax.__version__} has {devices}")
        return
    print(f"JAX {jax.__version__}: {len(devices)} of {devices[0].device_kind}", flush=True)
    launch.say_library(args, 0)
    mesh = jax.sharding.Mesh(devices, ("r",))
    results = [check(jax, mesh, name, body, expected, dtype, args.turns)
               for name, (body, expected) in checks(jax, len(devices)).items()
               for dtype in ("float32", "bfloat16")]
    print(f"{len(results)} checks, {results.count(False)} failed")
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
