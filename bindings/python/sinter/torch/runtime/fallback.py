"""Computes a chain without a plan: by Inductor's code for it, or by torch's operators one by one if there is no such code."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch

from ..._chain import Chain
from .eager import by_torch
from .launch import form_at
from .warn import warn_once

_MOST_ROWS_TOLD = 4096  # the most numbers of rows for which the result of guards is remembered


class Fallback:
    """A callable that computes a chain by torch. Thread-safe.

    Inductor's code is made at the first call, or by ``prepare`` before it, for any M if the chain has one. Its first run tunes its
    kernels, which waits for the device. So a capture can only contain the code after an earlier call ran it. In all other cases torch's
    operators compute one by one: if that code fails or cannot be made, for numbers of rows that it does not serve, on other devices than
    the first call's, and while another thread compiles anything.
    """

    #: Seconds that making Inductor's code took, for all chains together. Updated under Dynamo's lock.
    seconds = 0.0

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.by_torch = by_torch(chain)
        self._code: Any = None  # False: the code cannot be made
        self._device: Optional[torch.device] = None  # the device that the code is for
        self._serves: Callable[[int], bool] = lambda m: True
        self._ran = False  # whether the code ran outside of a capture

    @property
    def tried(self) -> bool:
        """Whether Inductor's code is made, or cannot be made."""
        return self._code is not None

    def prepare(self, inputs: List[torch.Tensor], m: int) -> None:
        """Makes Inductor's code unless that was tried before, and runs nothing. Does nothing under capture or while another thread compiles."""
        if self._code is None and not torch.cuda.is_current_stream_capturing() and compiling().acquire(blocking=False):
            try:
                self._make(inputs, m)
            finally:
                compiling().release()

    def __call__(self, inputs: List[torch.Tensor], m: int) -> List[torch.Tensor]:
        self.prepare(inputs, m)
        results = self._run(inputs, m)
        return self.by_torch(inputs, m) if results is None else results

    def _run(self, inputs: List[torch.Tensor], m: int) -> Optional[List[torch.Tensor]]:
        """Runs Inductor's code; None if there is none for M = `m` on this device, or none that a capture may contain.

        Raises:
            torch.OutOfMemoryError: the code stays, because there may be memory at the next call.
        """
        code, capturing = self._code, torch.cuda.is_current_stream_capturing()
        if not code or inputs[0].device != self._device or capturing and not self._ran:
            return None
        try:
            if not self._serves(m):
                return None
            results = list(code(*inputs))
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # whatever it is, the model runs
            self._give_up(error)
            return None
        self._ran = self._ran or not capturing
        return results

    def traced(self, inputs: Sequence[torch.Tensor], m: Any = 0) -> torch.fx.GraphModule:
        """The chain as a separate graph; with a symbol for M, if `m` is one."""
        from torch._dispatch.python import enable_python_dispatcher
        from torch.fx.experimental.proxy_tensor import make_fx

        axis = next(((i, at) for i, at in enumerate(self.chain._m_axes) if at is not None), None)
        symbolic = not isinstance(m, int)

        def f(*values: torch.Tensor) -> List[torch.Tensor]:
            rows: Any = values[axis[0]].shape[axis[1]] if axis is not None and symbolic else m
            return self.by_torch(values, rows)

        with enable_python_dispatcher():
            made = make_fx(f, tracing_mode="symbolic" if symbolic else "real")(*inputs)
        return torch.fx.GraphModule(made, made.graph)  # without the nodes of the symbols, which no cache can keep

    def _make(self, inputs: List[torch.Tensor], m: int) -> None:
        if self._code is not None or self.chain.uses_m and m < 2:  # torch's symbols begin at 2
            return
        began = time.monotonic()
        self._device = inputs[0].device
        try:
            # Code is made as outside of the caller's dispatch modes. AOTAutograd runs the first call of a graph in one.
            with torch.utils._python_dispatch._disable_current_modes():
                self._compile_any(m, inputs[0].device) if self.chain.uses_m else self._compile(inputs)
        except Exception as error:  # whatever it is, the model runs
            self._give_up(error)
        Fallback.seconds += time.monotonic() - began

    def _compile(self, inputs: List[torch.Tensor]) -> None:
        self._code = compiled(self.traced(inputs), inputs)

    def _compile_any(self, m: int, device: torch.device) -> None:
        """Compiles for every M that the guards of the code accept."""
        from torch._dynamo.source import LocalSource, TensorProperty, TensorPropertySource
        from torch._guards import TracingContext, tracing
        from torch._subclasses import FakeTensorMode
        from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

        symbols = ShapeEnv()
        mode = FakeTensorMode(shape_env=symbols)
        at = next((i, axis) for i, axis in enumerate(self.chain._m_axes) if axis is not None)
        source = TensorPropertySource(LocalSource(f"t{at[0]}"), TensorProperty.SIZE, at[1])
        symbol = symbols.create_symbol(m, source, dynamic_dim=DimDynamic.DYNAMIC)
        rows = symbols.create_symintnode(symbol, hint=m, source=source)
        forms = [form_at(two, three, rows) for two, three in zip(self.chain.inputs(2), self.chain.inputs(3))]
        with mode:
            inputs = [torch.empty_strided(form.shape, form.strides, dtype=form.dtype, device=device) for form in forms]
        with tracing(TracingContext(mode)):
            code = compiled(self.traced(inputs, rows), inputs)
        guards = [guard.expr for guard in symbols.guards]
        fixed = symbols.replacements.get(symbol)
        told: Dict[int, bool] = {}

        def serves(m: int) -> bool:
            found = told.get(m)
            if found is None:
                if len(told) >= _MOST_ROWS_TOLD:
                    told.clear()
                at = {symbol: m}
                found = m >= 2 and (fixed is None or fixed == m) and all(bool(guard.subs(at)) for guard in guards)
                told[m] = found
            return found

        self._serves, self._code = serves, code

    def _give_up(self, error: Exception) -> None:
        """Ends all further attempts to make Inductor's code."""
        self._code = False
        warn_once(f"torch's operators compute a part one by one: {type(error).__name__}: {error}")


def compiling() -> Any:
    """Dynamo's lock. Inductor's configuration is global to the process and may only be patched under this lock."""
    from torch._dynamo.convert_frame import compile_lock

    return compile_lock


def compiled(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
    """Inductor's code for a graph, compiled without Dynamo: it has no guards, and no stance or limit of the caller forbids it. Sinter's pass,
    which the process's configuration may name, does not run."""
    from torch._inductor import compile as compile_graph

    return compile_graph(graph, [*inputs], {"triton.cudagraphs": False, "post_grad_custom_pre_pass": None})
