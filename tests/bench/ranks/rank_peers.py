"""torch's ways to sum over ranks: NCCL, the kernels of symmetric memory, and its products that overlap their transfer.

A way that this torch or this machine lacks raises when it is called; the results file then says why.
"""

import importlib
import os

import torch
import torch.distributed as dist
from shares import ASYNC, SUMS

#: NVLink multicast off in NCCL, in torch's symmetric memory, in NVSHMEM.
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
OPS = {
    "symm one-shot": "one_shot_all_reduce", "symm two-shot": "two_shot_all_reduce_",
    "symm multimem": "multimem_all_reduce_", "symm multimem one-shot": "multimem_one_shot_all_reduce",
}  # fmt: skip


def leave_out_multicast(environment=os.environ):
    """Switches NVLink multicast off for this process and those that it starts. Called before torch uses a GPU."""
    environment.update(NO_MULTICAST)


def failing(error):
    """A way that is not here."""

    def call(*_):
        raise error

    return call


def sums(rows, columns, device, process_group):
    """{name: way}, and the buffer that all ranks see. A way takes `write(out)`, which leaves this rank's part in `out`, or in a tensor of its own if
    `out` is None, and returns it; a way returns the sum. Collective."""

    def nccl(write):
        total = write(None)
        dist.all_reduce(total, group=process_group)
        return total

    ways = {"nccl": nccl}
    try:
        import torch.distributed._symmetric_memory as symmetric

        kept = symmetric.empty(rows, columns, dtype=torch.bfloat16, device=device)
        multicast = symmetric.rendezvous(kept, process_group).multicast_ptr
    except Exception as error:  # the same on all ranks: of one torch
        return {**ways, **{name: failing(error) for name in SUMS if name not in ways}}, None

    def by(op):
        def way(write):
            return getattr(torch.ops.symm_mem, op)(write(kept), "sum", process_group.group_name)

        return way

    for name, op in OPS.items():
        off = "multimem" in name and not multicast
        ways[name] = failing(RuntimeError("NVLink multicast is off or not there")) if off else by(op)
    return ways, kept


class AsyncProducts:
    """Products of symmetric memory that overlap their transfer, for rows that ranks share. `x` and `w`: bf16, or codes with their scales."""

    def __init__(self, kind, process_group):
        importlib.import_module("torch.distributed._symmetric_memory")  # registers them
        self.coded, self.name, self.ops = kind != "bf16", process_group.group_name, torch.ops.symm_mem

    def scatter(self, x, w):
        """This rank's rows of the sum of x wT."""
        if not self.coded:
            return self.ops.fused_matmul_reduce_scatter(x, w.T, "sum", 0, self.name)
        shape = [x[0].shape[0], w[0].shape[0]]
        return self.ops.fused_scaled_matmul_reduce_scatter(
            x[0], w[0].T, x[1], w[1].T, "sum", 0, 0, self.name, shape, out_dtype=torch.bfloat16, use_fast_accum=True)

    def gather(self, x, w):
        """All rows of the ranks' x, times wT."""
        if not self.coded:
            return self.ops.fused_all_gather_matmul(x, [w.T], 0, self.name, return_A=False)[1][0]
        return self.ops.fused_all_gather_scaled_matmul(
            x[0], [w[0].T], x[1], [w[1].T], 0, self.name, [None], [None], [torch.bfloat16], [True])[1][0]


def rows_of(matrix, rank, size):
    """A rank's rows of a matrix, of which ranks have equally many."""
    return matrix.chunk(size)[rank].contiguous()


def gathered(part, size, process_group):
    """All ranks' rows."""
    whole = torch.empty((part.shape[0] * size, *part.shape[1:]), dtype=part.dtype, device=part.device)
    dist.all_gather_into_tensor(whole, part, group=process_group)
    return whole


def async_way(rows, size, make):
    """{name: way} of asynchronous products; a reason where ranks cannot share the rows. `make()` gives the call."""
    if rows % size:
        return {ASYNC: failing(ValueError(f"{rows} rows are not a multiple of {size} ranks"))}
    try:
        return {ASYNC: make()}
    except Exception as error:  # the same on all ranks: of one torch
        return {ASYNC: failing(error)}
