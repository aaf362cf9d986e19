"""``torch.ops.sinter.run``: any chain as an operator, by the key under which it is registered."""

from __future__ import annotations

from typing import Any, List, Sequence

import torch

from ..._argument import instance
from ..._binding import Binding
from ..._buffers import contiguous
from ..._chain import Chain
from ..._error import Error, Status, invalid
from ..._plan import Plan
from .groups import split_of
from .launch import fake_outputs
from .register import need_tensor, register
from .store import chains, store


def register_chain(chain: Chain) -> str:
    """Registers `chain` for ``torch.ops.sinter.run``. Returns the key to pass to it: the chain's digest.

    A compiled graph that holds the key needs the chain registered in the process that runs it.
    """
    key = instance(chain, Chain, "chain").digest
    chains[key] = chain
    return key


def _registered(key: str) -> Chain:
    chain = chains.get(key)
    if chain is None:
        raise Error(Status.NOT_FOUND, f"no chain {key[:16]} is registered here: sinter.torch.register_chain(chain)")
    return chain


def _run_cuda(inputs: List[torch.Tensor], key: str, pdl: bool = False, group: str = "") -> List[torch.Tensor]:
    """`group`: the name of the group over whose ranks the chain sums."""
    chain = _registered(key)
    if not inputs:
        raise invalid("a chain without inputs has no device to run on")
    device = inputs[0].device.index
    rows = _rows(chain, inputs)
    declared = _as_declared(chain, inputs)
    with torch.no_grad():
        if not group:
            result = store.find_chain(device, chain, key, rows)(*declared, pdl=pdl)
        elif rows == 0 and chain.uses_m:
            return _run_fake(inputs, key)
        else:
            over = split_of(group)

            def bind(plan: Plan) -> Binding:
                return plan.bind(*declared, group=over.group)

            (plan,) = over.meet(lambda: [store.find_chain(device, chain, key, rows)], bind)
            result = bind(plan)(pdl=pdl)
    return list(result) if isinstance(result, tuple) else [result]


def _as_declared(chain: Chain, inputs: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    """The inputs, made contiguous if the chain requires it. The chain may require other strides."""
    infos = chain.inputs(2)
    return [
        value.contiguous() if i >= len(infos) or infos[i].strides == contiguous(infos[i].shape) else value
        for i, value in enumerate(inputs)
    ]


def _run_cpu(inputs: List[torch.Tensor], key: str, pdl: bool = False, group: str = "") -> List[torch.Tensor]:
    _registered(key)
    raise invalid("input 0 is on the host: a chain runs on a GPU")


def _rows(chain: Chain, inputs: Sequence[torch.Tensor]) -> int:
    for i, value in enumerate(inputs[: chain.input_count]):
        rows = chain.m_of(i, tuple(value.shape))
        if rows is not None:
            return int(rows)
    return 0


def _run_fake(inputs: List[torch.Tensor], key: str, pdl: bool = False, group: str = "") -> List[torch.Tensor]:
    """Fake outputs with the chain's shapes and strides. An extent of M is the symbol of the inputs."""
    chain = _registered(key)
    axes = zip(inputs, chain._m_axes[: chain.input_count])
    rows: Any = next((value.shape[axis] for value, axis in axes if axis is not None and axis < value.dim()), 0)
    return fake_outputs(chain, rows, inputs[0])


register("run", "(Tensor[] inputs, str key, bool pdl=False, str group='') -> Tensor[]", _run_cuda, _run_cpu, _run_fake)


def run(chain: "Chain | str", *inputs: torch.Tensor) -> List[torch.Tensor]:
    """Runs any chain as an operator that torch.compile sees: ``torch.ops.sinter.run``. `chain`: the chain, or its registered key.

    The plan is prepared at the first call for a number of rows.
    """
    key = chain if isinstance(chain, str) else register_chain(chain)
    if not key.isascii():
        raise invalid(f"chain is {key!r}, which is no key of register_chain")
    if not inputs:
        raise invalid("a chain without inputs has no device to run on")
    for i, value in enumerate(inputs):
        need_tensor(value, f"input {i}")
    result: List[torch.Tensor] = torch.ops.sinter.run(list(inputs), key)
    return result
