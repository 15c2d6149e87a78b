"""A small transformer with tensor and sequence parallelism, trained and decoded, by `msccl.layers`.

    MSCCL_SM_BUDGET=0 LD_PRELOAD=.../libnccl.so.2 PYTHONPATH=... python parallel_layers.py
    PYTHONPATH=... python parallel_layers.py --backend gloo            (without a GPU)

Each rank has its part of every weight, and the rows of its own tokens. Beside it each rank trains the
whole model alone: losses and gradients must agree within what another order of additions explains.
Of half types gradients are compared at the first step, before weights drift apart. Then both decode
greedily, the parallel one in a CUDA graph where there is a GPU, and must choose the same tokens.
"""

import argparse
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as functional

sys.dont_write_bytecode = True
import launch

TOKENS, DEPTH, HEADS, WIDE, LAYERS, WORDS = 32, 64, 4, 128, 2, 48
STEPS, DECODED = 12, 8
TOLERANCES = {torch.float32: 2e-4, torch.bfloat16: 6e-2, torch.float16: 2e-2}


class Model:
    """All weights, or a rank's parts of them: `part(of, axis)` cuts along an axis."""

    def __init__(self, device, dtype, part):
        made = torch.Generator().manual_seed(11)

        def weight(rows, columns, axis=None):
            whole = (torch.randn(rows, columns, generator=made) / rows**0.5).to(device, dtype)
            return (whole if axis is None else part(whole, axis)).clone().requires_grad_()

        self.embedding = weight(WORDS, DEPTH)
        self.layers = [
            {
                # A head's queries, keys and values stand together, so that a cut is one of heads.
                "attention in": weight(DEPTH, 3 * DEPTH, 1),
                "attention out": weight(DEPTH, DEPTH, 0),
                "up": weight(DEPTH, WIDE, 1),
                "down": weight(WIDE, DEPTH, 0),
            }
            for _ in range(LAYERS)
        ]

    def weights(self):
        yield "embedding", self.embedding
        for number, layer in enumerate(self.layers):
            yield from ((f"layer {number}, {name}", weight) for name, weight in layer.items())


def attend(mixed, heads):
    """Causal attention of `heads` heads over all tokens."""
    tokens = mixed.shape[0]
    parts = mixed.view(tokens, heads, 3, DEPTH // HEADS).permute(2, 1, 0, 3)
    out = functional.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
    return out.transpose(0, 1).reshape(tokens, -1)


def forward(model, words, heads, into, out):
    """What comes out of the last layer for `words`; `into` and `out` are the products of a layer."""
    x = model.embedding[words]
    for layer in model.layers:
        normal = functional.rms_norm(x, (DEPTH,))
        x = x + out(attend(into(normal, layer["attention in"]), heads), layer["attention out"])
        normal = functional.rms_norm(x, (DEPTH,))
        x = x + out(functional.gelu(into(normal, layer["up"])), layer["down"])
    return functional.rms_norm(x, (DEPTH,)) @ model.embedding.t()


def loss_of(scores, next_words, count):
    return functional.cross_entropy(scores.float(), next_words, reduction="sum") / count


class Pair:
    """The whole model, and this rank's part of it."""

    def __init__(self, rank, world, device, dtype):
        from msccl.layers import column_parallel, row_parallel
        from msccl.matmul import Products

        self.rank, self.world = rank, world
        self.products = Products()
        self.whole = Model(device, dtype, lambda of, axis: of)
        self.part = Model(device, dtype, lambda of, axis: of.chunk(world, axis)[rank])
        self.into = lambda x, weight: column_parallel(self.products, x, weight)
        self.out = lambda x, weight: row_parallel(self.products, x, weight)

    def alone(self, words):
        return forward(self.whole, words, HEADS, torch.mm, torch.mm)

    def together(self, own_words):
        return forward(self.part, own_words, HEADS // self.world, self.into, self.out)

    def own(self, of):
        return of.chunk(self.world)[self.rank]

    def step(self, words, next_words):
        """The losses of both after a step, and how far gradients are apart."""
        whole = loss_of(self.alone(words), next_words, len(words))
        part = loss_of(self.together(self.own(words)), self.own(next_words), len(words))
        whole.backward()
        part.backward()
        part = part.detach().clone()
        dist.all_reduce(part)
        # Every rank has the embedding's gradient of its own tokens.
        dist.all_reduce(self.part.embedding.grad)
        apart = max(self.distances())
        for model in (self.whole, self.part):
            for _, weight in model.weights():
                with torch.no_grad():
                    weight -= 0.3 * weight.grad
                weight.grad = None
        return whole.item(), part.item(), apart

    def distances(self):
        for (name, whole), (_, part) in zip(self.whole.weights(), self.part.weights()):
            expected = whole.grad
            if whole.shape != part.shape:
                axis = 0 if whole.shape[0] != part.shape[0] else 1
                expected = expected.chunk(self.world, axis)[self.rank]
            scale = whole.grad.float().abs().max()
            yield ((part.grad.float() - expected.float()).abs().max() / scale).item()


def decode(device, scores_of):
    """Words that follow, chosen greedily; `scores_of` gives scores of the words in `window`."""
    window = torch.zeros(TOKENS, dtype=torch.long, device=device)
    chosen = []
    with torch.no_grad():
        for at in range(DECODED):
            scores = scores_of(window)
            chosen.append(scores[at].argmax().item())
            window[at + 1] = chosen[-1]
    return chosen


def together_in_graph(pair, device):
    """Scores of the parallel model, by a graph where there is a GPU."""
    words = torch.zeros(TOKENS, dtype=torch.long, device=device)
    scores = []

    def run():
        own = pair.together(pair.own(words)).contiguous()
        every = [torch.empty_like(own) for _ in range(pair.world)]
        dist.all_gather(every, own)
        return torch.cat(every)

    if device.type != "cuda":
        def of(window):
            words.copy_(window)
            return run()
        return of
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        scores.append(run())

    def of(window):
        words.copy_(window)
        graph.replay()
        return scores[0]

    return of


def check(dtype, rank, world, device):
    pair = Pair(rank, world, device, dtype)
    made = torch.Generator().manual_seed(5)
    words = torch.randint(0, WORDS, (TOKENS + 1,), generator=made).to(device)
    tolerance, worst, losses = TOLERANCES[dtype], 0.0, []
    for step in range(STEPS):
        whole, part, apart = pair.step(words[:-1], words[1:])
        losses.append(part)
        if step == 0 or dtype == torch.float32:
            worst = max(worst, apart, abs(whole - part) / abs(whole))
        else:
            worst = max(worst, abs(whole - part) / losses[0])
        assert worst < tolerance, f"{dtype}: off by {worst:.1e}, more than {tolerance:.0e}"
    assert losses[-1] < 0.8 * losses[0], f"{dtype}: it learns nothing: {losses}"
    # Whoever decodes has the same weights: those of training differ in their last bits.
    pair.part = Model(device, dtype, lambda of, axis: of.chunk(world, axis)[rank])
    pair.whole = Model(device, dtype, lambda of, axis: of)
    alone = decode(device, pair.alone)
    with torch.no_grad():
        together = decode(device, together_in_graph(pair, device))
    assert dtype != torch.float32 or together == alone, f"{together} instead of {alone}"
    pair.products.close()
    how = "overlapped" if pair.products.overlaps else "in turn"
    return (f"{str(dtype):16} loss {losses[0]:.4f} -> {losses[-1]:.4f}, at most {worst:.1e} from one "
            f"rank alone, {how}; decoded {sum(a == b for a, b in zip(alone, together))} of {DECODED} alike")


def run(args, rank, world):
    device = launch.join(args, rank, world)
    for dtype in TOLERANCES:
        line = check(dtype, rank, world, device)
        if rank == 0:
            print(line, flush=True)
    launch.leave(device)


if __name__ == "__main__":
    launch.main(argparse.ArgumentParser(description=__doc__.splitlines()[0]), run)
