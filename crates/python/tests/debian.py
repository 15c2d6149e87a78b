"""What the package does with a PyTorch that is older than the backends it can register, and has no
NCCL: that of Debian. Started as one of several ranks by ``msccl.run`` and torchrun."""

import msccl
import msccl.torch
import torch
import torch.distributed as dist

assert msccl.status().in_place, msccl.status()
try:
    msccl.torch.register_backend()
except msccl.Error as error:
    assert torch.__version__ in str(error) and '"nccl"' in str(error), error
else:
    assert "msccl" in dist.Backend.backend_list
dist.init_process_group("gloo")
ones = torch.ones(3)
dist.all_reduce(ones)
assert ones.tolist() == [2.0] * 3, ones
print("right")
