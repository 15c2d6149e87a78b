"""What a notebook does: compile, look, compare, keep."""

from __future__ import annotations

import msccl


def main() -> None:
    """Prints what there is to know of two algorithms."""
    ring = msccl.compile("allreduce/ring", ranks=8)
    orders = ring.proof.orders
    print(ring.proof, "orders:", "none" if orders is None else orders.count)
    estimate = ring.estimate("hgx-h100-8", "1M")
    if estimate.bound_us is not None:
        print(f"{estimate.us:.1f} µs, {estimate.us / estimate.bound_us:.1f} times the bound")
    comparison = msccl.compare(ring, "allreduce/two_shot", ranks=8, topo="hgx-h100-8")
    print(comparison)
    best: str = comparison.best(comparison.sizes[0])
    print("best for small calls:", best)
    try:
        msccl.compile("algorithm x(ranks N = 2) implements allreduce(chunks N) { }")
    except msccl.ProofError as error:
        print("refused:", error.verdict.fault)


if __name__ == "__main__":
    main()
