"""A small transformer, trained for some steps with DDP and with FSDP2; the losses as JSON.

    python train.py --world 4 --out nccl.json
    LD_PRELOAD=.../libnccl.so.2 python train.py --world 4 --out ours.json
    python compare.py nccl.json ours.json

Everything random follows from fixed seeds, so that two runs differ by the order in which the
collective library adds, and by nothing else.
"""

import argparse
import json
import os
import sys
import time

sys.dont_write_bytecode = True
import launch

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS = 64, 64, 128, 4, 3


def model(torch, dtype):
    """A causal transformer over a small vocabulary."""
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.project = nn.Linear(WIDTH, 3 * WIDTH)
            self.join = nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            batch, length, _ = x.shape
            parts = self.project(self.before(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.join(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
            return x + self.down(functional.gelu(self.up(self.after(x))))

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, WIDTH)
            self.places = nn.Embedding(LENGTH, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

        def forward(self, text):
            places = torch.arange(text.shape[1], device=text.device)
            x = self.tokens(text) + self.places(places)
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    torch.manual_seed(1)
    return Transformer().to(dtype)


def batch(torch, rank, step, size):
    """Texts in which every token follows from the one before, but for some noise."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    text = torch.randint(VOCABULARY, (size, LENGTH + 1), generator=generator)
    noise = torch.rand((size, LENGTH), generator=generator) < 0.1
    for place in range(LENGTH):
        following = (text[:, place] * 5 + 3) % VOCABULARY
        text[:, place + 1] = torch.where(noise[:, place], text[:, place + 1], following)
    return text


def ddp(torch, net, device):
    """The model under DDP."""
    from torch.nn.parallel import DistributedDataParallel

    ids = [device.index] if device.type == "cuda" else None
    return DistributedDataParallel(net, device_ids=ids, bucket_cap_mb=1)


def fsdp1(torch, net, device):
    """The model under `FullyShardedDataParallel`."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(net, use_orig_params=True)


def fsdp2(torch, net, device):
    """The model under `fully_shard`, which PyTorch has from 2.6 on."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
    for block in net.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(net, mesh=mesh)
    return net


WAYS = {"ddp": ddp, "fsdp1": fsdp1, "fsdp2": fsdp2}


def train(torch, args, rank, device, way, dtype):
    """The mean loss over all ranks, step by step."""
    from torch import distributed as dist
    from torch.nn import functional

    net = WAYS[way](torch, model(torch, dtype).to(device), device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    losses = []
    for step in range(args.steps):
        text = batch(torch, rank, step, args.batch).to(device)
        logits = net(text[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shared = loss.detach().clone()
        dist.all_reduce(shared)
        losses.append(shared.item() / dist.get_world_size())
    return losses


def run(args, rank, world):
    """All trainings on one rank; rank 0 writes the file."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    import torch
    import torch.distributed as dist

    device = launch.device(args, rank)
    torch.use_deterministic_algorithms(True, warn_only=True)
    launch.say_library(args, rank)
    bound = {"device_id": device} if args.backend == "nccl" else {}
    dist.init_process_group(args.backend, store=launch.store(rank, world), rank=rank,
                            world_size=world, **bound)
    curves = {}
    for way in args.way or ["ddp", "fsdp2"]:
        for name in args.dtype or ["float32", "bfloat16"]:
            start = time.monotonic()
            losses = train(torch, args, rank, device, way, getattr(torch, name))
            curves[f"{way} {name}"] = losses
            if rank == 0:
                print(f"{way} {name}: loss {losses[0]:.6f} -> {losses[-1]:.6f}, "
                      f"{time.monotonic() - start:.1f} s", flush=True)
    if rank == 0:
        library = launch.nccl_library()
        with open(args.out, "w") as out:
            json.dump({"world": world, "library": library, "curves": curves}, out, indent=1)
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        print(f"destroyed the process group; wrote {args.out}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="losses.json", help="where the losses go")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=8, help="texts per rank and step")
    parser.add_argument("--way", action="append", choices=list(WAYS),
                        help="may be repeated (default ddp and fsdp2)")
    parser.add_argument("--dtype", action="append", choices=["float32", "bfloat16"])
    launch.main(parser, run)
