"""Inductor's code for ``torch.ops.sinter.run_chain``: it calls a ``Part`` of its own at each place, not the operator.

Inductor also learns here what the chain declares of its inputs. It writes them so, or copies them in a kernel that it may fuse.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, List, Sequence

import torch

from ..._buffers import contiguous
from ..._chain import TensorInfo
from ..runtime.launch import form_at
from ..runtime.run_chain import Carried, carried

_MAKES = "sinter_part"  # the name of ``Part`` in Inductor's code


@functools.lru_cache(maxsize=None)
def call_parts_directly() -> None:
    """Registers the lowering with Inductor."""
    from torch._inductor.lowering import register_lowering

    register_lowering(torch.ops.sinter.run_chain.default, type_promotion_kind=None)(_lowered)


def _lowered(inputs: Sequence[Any], m: Any, chain: str, how: str) -> List[Any]:
    from torch._inductor.ir import TensorBox

    it = carried(chain)
    if it.tensors:  # those that are concatenated lie where the graph says
        given = list(inputs)
    else:
        given = [_as_declared(x, two, three, m) for x, two, three in zip(inputs, it.chain.inputs(2), it.chain.inputs(3))]
    results = _call_class().create(torch.ops.sinter.run_chain.default, given, m, chain, how)
    return [TensorBox.create(x) for x in results]


def _as_declared(x: Any, two: TensorInfo, three: TensorInfo, m: Any) -> Any:
    """The input in the form that the chain declares, as ``Carried.declared``. `two`, `three`: the form at M = 2 and 3. Elements that lie in
    the declared order may keep other extents: a ``Part`` only reads their address."""
    from torch._inductor import ir
    from torch._inductor.lowering import lowerings, to_dtype

    shape, strides, dtype = form_at(two, three, m)
    if x.get_dtype() != dtype:
        x = to_dtype(x, dtype)
    if _is_dense(two) and _equal([_product(shape)], [x.get_numel()]):
        strides = _dense_strides(x.get_size())
    elif not _equal(shape, x.get_size()):
        x = lowerings[torch.ops.aten.view.default](x, shape)
    return ir.ExternKernel.require_exact_strides(x, strides)


def _fits(it: Carried, inputs: Sequence[Any], m: Any) -> bool:
    """Whether Inductor's tensors always hold what the chain declares."""
    left = list(inputs)
    for i, (two, three) in enumerate(zip(it.chain.inputs(2), it.chain.inputs(3))):
        count = it.tensors[i] if it.tensors else 1
        tensors, left = left[:count], left[count:]
        shape, strides, dtype = form_at(two, three, m)
        if any(x.get_dtype() != dtype for x in tensors):
            return False
        if _is_dense(two):
            same = _equal([sum(x.get_numel() for x in tensors)], [_product(shape)]) and all(_lies(x, _dense_strides(x.get_size())) for x in tensors)
        else:
            same = count == 1 and _equal(tensors[0].get_size(), shape) and _lies(tensors[0], strides)
        if not same:
            return False
    return True


def _is_dense(info: TensorInfo) -> bool:
    return info.strides == contiguous(info.shape)


def _dense_strides(shape: Sequence[Any]) -> List[Any]:
    return [_product(shape[axis + 1 :]) for axis in range(len(shape))]


def _product(factors: Sequence[Any]) -> Any:
    return functools.reduce(operator.mul, factors, 1)


def _lies(x: Any, strides: Sequence[Any]) -> bool:
    """Whether a tensor has these strides. The stride of an axis of extent 1 does not matter."""
    return all(_equal([size], [1]) or _equal([a], [b]) for size, a, b in zip(x.get_size(), x.get_stride(), strides))


def _equal(a: Sequence[Any], b: Sequence[Any]) -> bool:
    from torch._inductor.virtualized import V

    return len(a) == len(b) and all(map(V.graph.sizevars.statically_known_equals, a, b))


@functools.lru_cache(maxsize=None)
def _call_class() -> Any:
    """The class of a call in Inductor's intermediate form. It is made when Inductor is there."""
    from torch._inductor import ir
    from torch._inductor.virtualized import V

    class PartCall(ir.FallbackKernel):
        _part = ""  # the name of the ``Part`` in the code; "": the code calls the operator

        @classmethod
        def create(cls, kernel: Any, *args: Any, **kwargs: Any) -> Any:
            results: Any = super().create(kernel, *args, **kwargs)
            for result in results:  # ``Part`` makes them as they are declared
                result.skip_size_stride_alignment_checks = True
                V.graph.unaligned_buffers.discard(result.get_name())
            return results

        def codegen(self, wrapper: Any) -> None:
            if not (V.graph.cpp_wrapper or V.graph.aot_mode or getattr(V.graph, "fx_wrapper", False)):
                (_, m, chain, how), _ = self.unflatten_args(self.inputs, self.constant_args)
                device: Any = self.get_device()
                made = chain, how, device.index if device.type == "cuda" else None, _fits(carried(chain), self.inputs, _expression(m))
                self._part = f"{_MAKES}_{self.get_name()}"
                wrapper.add_import_once(f"from {Carried.__module__.rpartition('.')[0]}.part import Part as {_MAKES}")
                wrapper.define_kernel(self._part, f"{_MAKES}{made!r}", gpu=False)
            super().codegen(wrapper)

        def get_kernel_name(self) -> str:
            return self._part or super().get_kernel_name()

        def codegen_args(self) -> List[str]:
            args = super().codegen_args()
            return [args[1], args[0]] if self._part else args

    return PartCall


def _expression(m: Any) -> Any:
    return m.node.expr if isinstance(m, torch.SymInt) else m
