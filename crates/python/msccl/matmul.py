"""Matrix products of the ranks of a group, beside the exchange of what they multiply.

A layer that is split over ranks gathers its input before its first product, and adds up what its
second product leaves on every rank. :class:`Products` does both while the products run: the
exchange is cut into parts, each product begins when its part is there, and copy engines carry the
parts, so that products keep all multiprocessors.

For that the group is PyTorch's ``nccl`` (or ``msccl``) over this library, with
``MSCCL_SM_BUDGET=0`` or ``NCCL_CTA_POLICY=2`` in the environment; without these two kernels carry
the parts, right and slower. Over another backend, as ``gloo`` without a GPU, exchange and product
come one after the other, with the same results.

>>> import importlib.util
>>> if importlib.util.find_spec("torch") is not None:
...     import torch
...     import torch.distributed as dist
...     from msccl.matmul import Products
...
...     dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
...     products = Products()
...     rows, weight = torch.ones(4, 8), torch.ones(8, 2)
...     gathered, out = products.all_gather_matmul(rows, weight)
...     assert out.shape == (4, 2) and out.eq(8).all()
...     assert products.matmul_reduce_scatter(rows, weight).eq(8).all()
...     products.close()
...     dist.destroy_process_group()
"""

from __future__ import annotations

import ctypes
import importlib
from typing import Any

from msccl._errors import Error
from msccl._place import status

#: `CU_STREAM_WAIT_VALUE_EQ`.
_EQUAL = 1


class _Windows:
    """Tensors that all ranks of a group have registered as windows, at the same place in each."""

    def __init__(self, torch: Any, backend: Any, shapes: dict[str, tuple[list[int], Any]]) -> None:
        self._backend = backend
        self._pool = torch.cuda.MemPool(backend.mem_allocator)
        device = torch.cuda.current_device()
        with torch.cuda.use_mem_pool(self._pool):
            self.tensors = {
                name: torch.zeros(shape, dtype=dtype, device=device)
                for name, (shape, dtype) in shapes.items()
            }
        backend.register_mem_pool(self._pool, symm=True)

    def close(self) -> None:
        self._backend.deregister_mem_pool(self._pool)


class Products:
    """Products of the ranks of ``group``, overlapped with the exchange before or after them.

    ``parts`` is into how many parts the rows of other ranks are cut after a product, which travel
    part by part; the last one travels beside the product of a rank's own rows. Without it up to
    four ranks have one part, and more ranks half as many parts as there are ranks. All ranks make
    the same calls in the same order, also where these are recorded in a CUDA graph; a shape must
    have been used once before it is recorded.

    Raises :class:`msccl.Error` for a group over an NCCL that is not this library.
    """

    def __init__(self, group: Any = None, parts: int | None = None) -> None:
        self._torch = importlib.import_module("torch")
        self._dist = importlib.import_module("torch.distributed")
        self._group = group if group is not None else self._dist.group.WORLD
        self._rank = self._dist.get_rank(self._group)
        self._ranks = self._dist.get_world_size(self._group)
        self._parts = parts or (1 if self._ranks <= 4 else self._ranks // 2)
        #: Whether exchange and product overlap.
        self.overlaps: bool = self._dist.get_backend(self._group) in ("nccl", "msccl")
        self._windows: dict[Any, _Windows] = {}
        if not self.overlaps:
            return
        found = status()
        if not found.in_place:
            raise Error(f"products cannot be overlapped: {found}")
        # The group's communicator is made by its first call.
        self._dist.barrier(self._group)
        device = self._torch.device("cuda", self._torch.cuda.current_device())
        self._backend = self._group._get_backend(device)
        _, high = self._torch.cuda.Stream.priority_range()
        self._traffic = self._torch.cuda.Stream(priority=high)
        self._library = ctypes.CDLL("libnccl.so.2")
        self._driver = ctypes.CDLL("libcuda.so.1")

    def all_gather_matmul(self, a: Any, b: Any) -> tuple[Any, Any]:
        """The rows of ``a`` of all ranks, and their product with ``b``.

        ``a`` is this rank's ``[rows, depth]``, ``b`` is ``[depth, columns]``; the results are
        ``[ranks * rows, depth]``, valid until the next call with such an ``a``, and
        ``[ranks * rows, columns]``.

        >>> def first_product(products, own_rows, weight):
        ...     gathered, out = products.all_gather_matmul(own_rows, weight)
        ...     return out
        """
        torch, ranks = self._torch, self._ranks
        rows, depth = a.shape
        if not self.overlaps:
            gathered = a.new_empty([ranks * rows, depth])
            self._dist.all_gather_into_tensor(gathered, a.contiguous(), group=self._group)
            return gathered, torch.mm(gathered, b)
        shapes = {"all": ([ranks, rows, depth], a.dtype), "signals": ([ranks], torch.int32)}
        windows = self._of("gather", a, shapes)
        gathered, signals = windows["all"], windows["signals"]
        compute = torch.cuda.current_stream()
        # Nothing of an earlier call is taken for this one's.
        signals.zero_()
        out = torch.empty([ranks, rows, b.shape[1]], dtype=a.dtype, device=a.device)
        self._traffic.wait_stream(compute)
        with torch.cuda.stream(self._traffic):
            self._signal(signals)
            self._omit_own_block()
            self._dist.all_gather_into_tensor(gathered.view(-1, depth), a, group=self._group)
            # A copy within the GPU waits for multiprocessors: no peer shall wait for it.
            gathered[self._rank].copy_(a)
        torch.mm(a, b, out=out[self._rank])
        for step in range(1, ranks):
            # Each rank sends to its right-hand neighbour first.
            block = (self._rank - step) % ranks
            self._await(compute, signals, block)
            torch.mm(gathered[block], b, out=out[block])
        compute.wait_stream(self._traffic)
        return gathered.view(-1, depth), out.view(-1, b.shape[1])

    def matmul_reduce_scatter(self, a: Any, b: Any) -> Any:
        """This rank's rows of the sum over all ranks of ``a`` times ``b``.

        ``a`` is ``[ranks * rows, depth]``, ``b`` is ``[depth, columns]``; the result is ``[rows,
        columns]``. Contributions are added in the order of ranks and rounded once.

        >>> def second_product(products, all_rows, weight):
        ...     return products.matmul_reduce_scatter(all_rows, weight)
        """
        torch, ranks = self._torch, self._ranks
        rows, columns = a.shape[0] // ranks, b.shape[1]
        if not self.overlaps:
            product = torch.mm(a, b)
            came = torch.empty_like(product)
            self._dist.all_to_all_single(came, product, group=self._group)
            return came.view(ranks, rows, columns).sum(0)
        parts = next(of for of in range(self._parts, 0, -1) if rows % of == 0)
        shape = [parts, ranks, rows // parts, columns]
        windows = self._of("scatter", a, {"sent": (shape, a.dtype), "came": (shape, a.dtype)})
        sent, came = windows["sent"], windows["came"]
        compute = torch.cuda.current_stream()
        blocks = a.view(ranks, parts, rows // parts, a.shape[1])
        for part in range(parts):
            for step in range(1, ranks):
                block = (self._rank + step) % ranks
                torch.mm(blocks[block, part], b, out=sent[part, block])
            self._traffic.wait_stream(compute)
            with torch.cuda.stream(self._traffic):
                self._omit_own_block()
                self._dist.all_to_all_single(came[part], sent[part], group=self._group)
        # The block that stays here is multiplied while the others travel.
        own = torch.mm(blocks[self._rank].view(rows, -1), b)
        compute.wait_stream(self._traffic)
        if ranks == 2:
            return own.add_(came[:, 1 - self._rank].reshape(rows, columns))
        came[:, self._rank].copy_(own.view(parts, rows // parts, columns))
        return came.sum(1).view(rows, columns)

    def matmul_all_reduce(self, a: Any, b: Any) -> Any:
        """The sum over all ranks of ``a`` times ``b``, whole on every rank.

        The rows of ``a`` must be a multiple of the ranks.

        >>> def second_product_of_all(products, all_rows, weight):
        ...     return products.matmul_all_reduce(all_rows, weight)
        """
        own = self.matmul_reduce_scatter(a, b)
        shape = [self._ranks, *own.shape]
        if self.overlaps:
            gathered = self._of("sum", own, {"all": (shape, own.dtype)})["all"]
        else:
            gathered = own.new_empty(shape)
        out = gathered.view(-1, own.shape[1])
        self._dist.all_gather_into_tensor(out, own, group=self._group)
        return out

    def close(self) -> None:
        """Takes back all windows; every rank calls it.

        >>> def done(products):
        ...     products.close()
        """
        for windows in self._windows.values():
            windows.close()
        self._windows.clear()

    def _of(self, use: str, a: Any, shapes: dict[str, tuple[list[int], Any]]) -> dict[str, Any]:
        key = (use, a.dtype, *(tuple(shape) for shape, _ in shapes.values()))
        if key not in self._windows:
            self._windows[key] = _Windows(self._torch, self._backend, shapes)
        return self._windows[key].tensors

    def _signal(self, signals: Any) -> None:
        words = ctypes.c_void_p(signals.data_ptr())
        self._request("mscclCommSignalBlocks", words)

    def _omit_own_block(self) -> None:
        self._request("mscclCommOmitOwnBlock")

    def _request(self, function: str, *arguments: Any) -> None:
        """Asks the group's communicator for something about its next call."""
        communicator = ctypes.c_void_p(self._backend._comm_ptr())
        code = getattr(self._library, function)(communicator, *arguments)
        if code != 0:
            raise Error(f"{function} answered {code}")

    def _await(self, stream: Any, signals: Any, block: int) -> None:
        """Lets what comes later in ``stream`` wait for a signal."""
        address = signals.data_ptr() + block * signals.element_size()
        code = self._driver.cuStreamWaitValue32_v2(
            ctypes.c_void_p(stream.cuda_stream),
            ctypes.c_uint64(address),
            ctypes.c_uint32(1),
            _EQUAL,
        )
        if code != 0:
            raise Error(f"cuStreamWaitValue32 answered {code}")
