"""The two products of a tensor-parallel layer, with gradients, over :mod:`msccl.matmul`.

Activations between layers are split by rows (sequence parallelism): a rank has the rows of its own
tokens. The first weight of a layer is split by columns, the second by rows. So a layer is
``row_parallel(products, act(column_parallel(products, x, first)), second)``. A gradient of either
is a product of the other kind, and overlaps with its exchange as well.

>>> import importlib.util
>>> if importlib.util.find_spec("torch") is not None:
...     import torch
...     import torch.distributed as dist
...     from msccl.layers import column_parallel, row_parallel
...     from msccl.matmul import Products
...
...     dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
...     products = Products()
...     first, second = torch.ones(8, 2), torch.ones(2, 8, requires_grad=True)
...     hidden = column_parallel(products, torch.ones(4, 8), first)
...     out = row_parallel(products, hidden.relu(), second)
...     out.sum().backward()
...     assert out.eq(16).all() and second.grad.eq(32).all()
...     dist.destroy_process_group()
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from msccl.matmul import Products


def column_parallel(products: Products, rows: Any, weight: Any) -> Any:
    """The rows of all ranks, times this rank's columns of a weight.

    ``rows`` is this rank's ``[rows, depth]``, ``weight`` is ``[depth, columns / ranks]``; the result
    is ``[ranks * rows, columns / ranks]``.

    >>> def hidden(products, own_rows, first_weight):
    ...     return column_parallel(products, own_rows, first_weight).relu()
    """
    return _functions()[0].apply(products, rows, weight)


def row_parallel(products: Products, rows: Any, weight: Any) -> Any:
    """This rank's rows of the sum over all ranks of ``rows`` times this rank's rows of a weight.

    ``rows`` is ``[ranks * rows, depth / ranks]``, ``weight`` is ``[depth / ranks, columns]``; the
    result is ``[rows, columns]``.

    >>> def out(products, hidden, second_weight):
    ...     return row_parallel(products, hidden, second_weight)
    """
    return _functions()[1].apply(products, rows, weight)


def _column_forward(context: Any, products: Products, rows: Any, weight: Any) -> Any:
    gathered, out = products.all_gather_matmul(rows, weight)
    context.products = products
    # The next call has the memory of what was gathered.
    context.save_for_backward(gathered.clone(), weight)
    return out


def _column_backward(context: Any, gradient: Any) -> tuple[Any, ...]:
    gathered, weight = context.saved_tensors
    gradient = gradient.contiguous()
    of_rows = context.products.matmul_reduce_scatter(gradient, weight.t())
    return None, of_rows, gathered.t().mm(gradient)


def _row_forward(context: Any, products: Products, rows: Any, weight: Any) -> Any:
    context.products = products
    context.save_for_backward(rows, weight)
    return products.matmul_reduce_scatter(rows.contiguous(), weight)


def _row_backward(context: Any, gradient: Any) -> tuple[Any, ...]:
    rows, weight = context.saved_tensors
    gathered, of_rows = context.products.all_gather_matmul(gradient.contiguous(), weight.t())
    return None, of_rows, rows.t().mm(gathered)


@functools.cache
def _functions() -> tuple[Any, Any]:
    # PyTorch need not be there when this module is read.
    base = importlib.import_module("torch").autograd.Function

    def function(name: str, forward: Any, backward: Any) -> Any:
        parts = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        return type(name, (base,), parts)

    column = function("ColumnParallel", _column_forward, _column_backward)
    return column, function("RowParallel", _row_forward, _row_backward)
