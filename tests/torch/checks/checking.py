"""What checks are made of: `check` collects them, `Rank` and `same` are what they use."""

import torch
import torch.distributed as dist

CHECKS = []


def check(function):
    """Makes a function a check. Every rank calls it with its `Rank`; an exception fails it."""
    CHECKS.append(function)
    return function


class Skip(Exception):
    """Says why a check does not apply here."""


class Rank:
    """What checks need to know, and the tensors that they use."""

    def __init__(self, args, rank, world, device):
        self.args, self.rank, self.world, self.device = args, rank, world, device
        self.on_gpu = device.type == "cuda"
        self.nccl = args.backend == "nccl"
        self.narrow = None

    def dtypes(self):
        """The types that the backend reduces."""
        common = [torch.float32, torch.float64, torch.float16, torch.bfloat16,
                  torch.int8, torch.uint8, torch.int32, torch.int64]
        if self.narrow is None:
            self.narrow = [dtype for dtype in (torch.float8_e4m3fn, torch.float8_e5m2)
                           if self.nccl and self.reduces(dtype)]
        return common + self.narrow

    def reduces(self, dtype):
        """Whether PyTorch lets NCCL reduce this type; it decides before it calls the library."""
        try:
            dist.all_reduce(self.values(0, 1, dtype))
        except (RuntimeError, ValueError) as error:
            if "Float8" not in str(error):
                raise
            return False
        return True

    def values(self, rank, count, dtype, shift=0):
        """What `rank` contributes: zeros and ones, in a pattern of its own."""
        index = torch.arange(count, device=self.device)
        return ((index * 7 + rank * 3 + shift) % 5 < 2).to(torch.int32).to(dtype)

    def factors(self, rank, count, dtype):
        """Contributions to a product: every element is 2 on one rank and 1 on the others."""
        index = torch.arange(count, device=self.device)
        return ((index + rank) % self.world == 0).to(torch.int32).add(1).to(dtype)

    def total(self, count, dtype, ranks=None, shift=0):
        """The sum over all ranks."""
        ranks = range(self.world) if ranks is None else ranks
        parts = [self.values(rank, count, torch.int32, shift) for rank in ranks]
        return sum(parts).to(dtype)

    def sizes(self):
        return [1, 7, 1000, 65_537] if not self.args.quick else [1, 1003]

    def full(self, count, dtype):
        """A place for results, holding what no result is."""
        return torch.full((count,), 77, device=self.device, dtype=torch.float32).to(dtype)


def same(found, expected, what=""):
    """Fails unless two tensors are equal in every element."""
    if found.shape != expected.shape:
        raise AssertionError(f"{what}: shape {tuple(found.shape)}, not {tuple(expected.shape)}")
    if found.dtype.is_floating_point:
        found, expected = found.to(torch.float64), expected.to(torch.float64)
    wrong = (found != expected).nonzero()
    if wrong.numel():
        at = tuple(wrong[0].tolist())
        raise AssertionError(f"{what}: {len(wrong)} of {found.numel()} wrong, first at {at}: "
                             f"found {found[at].item()}, expected {expected[at].item()}")
