"""Plans, which are launched."""

from __future__ import annotations

import ctypes
import json
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

from . import _abi
from ._argument import flag, integer
from ._binding import Binding, record_stream, symbols_of
from ._buffers import Buffer, check, check_workspace, describe, is_torch, torch_dtype, torch_module
from ._chain import Chain, TensorInfo
from ._dtype import FACTS, DType
from ._error import Error, Status, invalid
from ._handle import Handle
from ._library import call, call_for_digest, call_for_long_text, call_for_text, library
from ._stream import StreamLike, current, handle as stream_handle

if TYPE_CHECKING:
    from ._context import Context
    from ._group import Group


class Plan(Handle):
    """A chain prepared for a bucket of rows, its kernels loaded. Immutable, thread-safe. Made by ``Context.prepare``."""

    __slots__ = ("context", "chain", "bucket", "max_m", "workspace_size", "shares_workspace", "_buffer_count", "_facts")
    _release_name = "sinter_plan_release"

    def __init__(self, pointer: ctypes.c_void_p, context: "Context", chain: Chain, shares_workspace: bool = True) -> None:
        super().__init__(pointer, drives=context.has_device)
        lib = library()
        #: The context that made the plan.
        self.context = context
        #: The chain that the plan computes.
        self.chain = chain
        #: The largest m that one pass serves.
        self.bucket: int = lib.sinter_plan_get_bucket(pointer)
        #: The largest m that a launch takes, in one pass or several; 0 for a chain without M.
        self.max_m: int = lib.sinter_plan_get_max_m(pointer)
        #: Bytes of workspace that a launch needs; may be 0.
        self.workspace_size: int = lib.sinter_plan_get_workspace_size(pointer)
        #: Whether the context keeps workspaces that are large enough for it.
        self.shares_workspace = shares_workspace
        self._buffer_count: int = lib.sinter_plan_get_buffer_count(pointer)
        self._facts: Optional[Tuple[str, int, float]] = None
        if shares_workspace:
            context._workspaces.want(self.workspace_size)

    # ------------------------------------------------------------ Asking

    @property
    def digest(self) -> str:
        """64 hex digits; ranks with equal digests compute in the same way."""
        return call_for_digest("sinter_plan_get_digest", self._get())

    @property
    def name(self) -> str:
        """The plan's kind: "fused", one kernel; "unfused", a kernel for each operation; "partly fused"; or "stand-in"."""
        return self._read_facts()[0]

    @property
    def kernel_count(self) -> int:
        """Kernels that a launch enqueues."""
        return self._read_facts()[1]

    @property
    def predicted_us(self) -> float:
        """Modelled microseconds of the whole plan."""
        return self._read_facts()[2]

    def explain(self) -> str:
        """The plan on one screen: drawings, times, and the best candidates that lost, with the reasons."""
        return call_for_long_text("sinter_plan_explain", self._get())

    def summary(self) -> str:
        """``explain`` in a few lines: schedules, times, the origin of the kernels."""
        return call_for_text("sinter_x_plan_summary", self._get())

    def svg(self) -> str:
        """The plan drawn as a self-contained SVG document."""
        return call_for_text("sinter_x_plan_svg", self._get())

    def _repr_svg_(self) -> str:
        return self.svg()

    def to_json(self) -> Dict[str, Any]:
        """The plan as data."""
        document: Dict[str, Any] = json.loads(call_for_text("sinter_x_plan_to_json", self._get()))
        return document

    def _read_facts(self) -> Tuple[str, int, float]:
        """Name, number of kernels and predicted microseconds; they are read once, because a plan is immutable."""
        self._get()
        if self._facts is None:
            plan = self.to_json()
            self._facts = (plan["name"], len(plan["kernels"]), plan["predicted_us"])
        return self._facts

    def source(self, kernel: int) -> str:
        """Generated CUDA C++ of one kernel.

        Raises:
            Error: OUT_OF_RANGE or INVALID_ARGUMENT for a kernel that is not there.
        """
        return call_for_text("sinter_x_plan_get_source", self._get(), integer(kernel, "kernel", 0, 2**32 - 1))

    def __str__(self) -> str:
        return self.summary()

    def _told(self) -> str:
        return f"{self.name}, m<={self.bucket}, {self.kernel_count} kernels, {self.predicted_us:.2f} us predicted"

    # ------------------------------------------------------------ Launching

    def __call__(
        self,
        *inputs: Any,
        out: Any = None,
        m: Optional[int] = None,
        stream: StreamLike = None,
        workspace: Any = None,
        pdl: bool = False,
    ) -> Any:
        """Enqueues the plan's kernels. Returns the output, or a tuple of several. Legal in stream capture.

        Args:
            inputs: the chain's inputs in the order of their adds: torch tensors, objects with
                ``__cuda_array_interface__`` or ``__dlpack__``, or addresses. Device, dtype, shape, strides and
                alignment are checked as far as an object tells them.
            out: buffers for the outputs, one or a sequence; by default they are made by the library of the first
                torch or CuPy input. They may share memory with an input only if the chain declares it.
            m: rows; by default from the inputs' shapes.
            stream: an integer or a stream of torch or CuPy; by default the current stream of the inputs' library. The
                caller must wait for work of other streams on the buffers.
            workspace: device memory of ``workspace_size`` bytes, of any element type, zeroed once before its first use,
                apart from all buffers; by default the context's own for the stream.
            pdl: programmatic dependent launch: the first kernel may start before the kernel ahead has ended.

        Memory that its owner may free at any time (``__cuda_array_interface__``, ``__dlpack__``) is kept alive until
        the launch has ended; under capture as long as the plan's context.

        Raises:
            Error: INVALID_ARGUMENT naming the buffer and the property; OUT_OF_RANGE for m above `max_m`;
                UNAVAILABLE without a GPU; FAILED_PRECONDITION for a tensor that requires a gradient.
        """
        pdl = flag(pdl, "pdl")
        on, rows, buffers, outputs, given = self._arguments(inputs, out, m, stream, workspace)
        address = given[0].address if given else self.context._workspaces.address(on, self.workspace_size)
        addresses = (ctypes.c_uint64 * len(buffers))(*[buffer.address for buffer in buffers])
        self._launch(addresses, address, on, rows, pdl)
        self._keep(buffers + given, on, stream is not None)
        return outputs[0] if len(outputs) == 1 else outputs

    def bind(
        self,
        *inputs: Any,
        out: Any = None,
        m: Optional[int] = None,
        workspace: Any = None,
        stream: StreamLike = None,
        group: "Optional[Group]" = None,
    ) -> "Binding":
        """Fixes the buffers, so that launches cost less. Arguments as in a call; `m`, or the buffers' shapes, is the
        largest number of rows that the binding may be launched with. `group`: for a chain that sums over ranks, which
        cannot be launched without a binding. All ranks bind at once when a group gets a plan for the first time.

        Returns:
            A Binding, which keeps the buffers' objects and the plan alive.
        """
        # By its handle: the module of Group imports contexts, and theirs this one.
        if group is not None and getattr(group, "_release_name", "") != "sinter_group_release":
            raise TypeError(f"group is a {type(group).__name__}, not a sinter.Group")
        on, rows, buffers, outputs, given = self._arguments(inputs, out, m, stream, workspace)
        return Binding(self, buffers, outputs, rows, given, on, group)

    # ------------------------------------------------------------ Parts of a launch

    def _arguments(
        self, inputs: Sequence[Any], out: Any, m: Optional[int], stream: StreamLike, workspace: Any
    ) -> Tuple[int, int, List[Buffer], Tuple[Any, ...], List[Buffer]]:
        """Stream, rows, buffers, the outputs' objects, and the caller's workspace, all checked; the stream waits for those that write them."""
        on = current(inputs, self.context.device) if stream is None else stream_handle(stream)
        rows, buffers, outputs = self._buffers(inputs, out, m, on)
        self._get()
        if not self.context.has_device:
            raise Error(Status.UNAVAILABLE, f"the plan was prepared for target {self.context.target} without a GPU: no launch")
        given = self._given_workspace(workspace, on, buffers, rows)
        self._order(buffers + given, on)
        return on, rows, buffers, outputs, given

    def _buffers(
        self, inputs: Sequence[Any], out: Any, m: Optional[int], stream: int
    ) -> Tuple[int, List[Buffer], Tuple[Any, ...]]:
        """Rows, all buffers in the plan's order, and the outputs' objects, all checked."""
        chain = self.chain
        if len(inputs) != chain.input_count:
            raise invalid(f"{len(inputs)} inputs, the chain takes {chain.input_count}")
        buffers = [describe(value, f"input {i}", stream) for i, value in enumerate(inputs)]
        given = self._given_outputs(out)
        described = [_writable(describe(value, f"output {i}", stream), f"output {i}") for i, value in enumerate(given)]
        rows = self._rows(buffers + described, m)
        infos = chain.buffers(rows)
        if out is None:
            given = tuple(_allocate(inputs, info, i) for i, info in enumerate(infos[chain.input_count :]))
            described = [describe(value, f"output {i}", stream) for i, value in enumerate(given)]
        buffers += described
        for index, (buffer, info) in enumerate(zip(buffers, infos)):
            check(self._placed(buffer), info, _name(index, chain), self.context.device)
        if out is not None:
            _check_overlap(buffers, infos, chain)
        return rows, buffers, given

    def _given_outputs(self, out: Any) -> Tuple[Any, ...]:
        if out is None:
            return ()
        given = tuple(out) if isinstance(out, (list, tuple)) else (out,)
        if len(given) != self.chain.output_count:
            raise invalid(f"out has {len(given)} buffers, the chain has {self.chain.output_count} outputs")
        return given

    def _rows(self, buffers: Sequence[Buffer], m: Optional[int]) -> int:
        """`m`, or M by the buffers' shapes."""
        if not self.chain.uses_m:
            return 0
        if m is not None:
            return self._within_max_m(integer(m, "m", 0, 2**31 - 1))
        for index, buffer in enumerate(buffers):
            found = None if buffer.shape is None else self.chain.m_of(index, buffer.shape)
            if found is not None:
                return self._within_max_m(found)
        raise invalid("m is not given, and no buffer's shape tells it")

    def _within_max_m(self, rows: int) -> int:
        if rows > self.max_m:
            raise Error(Status.OUT_OF_RANGE, f"m is {rows}, the plan was prepared for at most {self.max_m} rows: prepare it for more")
        return rows

    def _placed(self, buffer: Buffer) -> Buffer:
        """The buffer with its device, from the driver if the object does not name it."""
        if buffer.device is None and buffer.owner is not None and self.context.has_device and buffer.address:
            return buffer._replace(device=self.context._driver.device_of(buffer.address))
        return buffer

    def _order(self, buffers: Sequence[Buffer], stream: int) -> None:
        """Makes the stream wait for streams that buffers are written on."""
        for producer in {buffer.producer for buffer in buffers} - {None, stream}:
            if {producer, stream} != {0, 1}:
                self.context._driver.wait_for(int(producer or 0), stream)

    def _given_workspace(self, given: Any, stream: int, buffers: Sequence[Buffer], rows: int) -> List[Buffer]:
        """The caller's workspace, checked; empty without one."""
        if given is None:
            return []
        buffer = self._placed(describe(given, "workspace", stream, untyped=True))
        check_workspace(buffer, self.workspace_size, self.context.device)
        for i, (other, info) in enumerate(zip(buffers, self.chain.buffers(rows))):
            if _overlap(buffer.address, self.workspace_size, other.address, info.bytes):
                raise invalid(f"workspace overlaps {_name(i, self.chain)}")
        return [_writable(buffer, "workspace")]

    def _launch(self, addresses: Any, workspace: int, stream: int, rows: int, pdl: bool) -> None:
        symbols = symbols_of(rows if self.chain.uses_m else None)
        flags = _abi.LAUNCH_PDL if pdl else 0
        call("sinter_plan_launch", self._get(), stream or None, *symbols, len(addresses), addresses, workspace, flags)

    def _keep(self, buffers: Sequence[Buffer], stream: int, foreign: bool) -> None:
        """Keeps the buffers' memory from being reused while the launch runs."""
        owners = [buffer.owner for buffer in buffers if buffer.owner is not None and not buffer.ordered]
        if owners:
            self.context._in_flight.hold(stream, owners)
        if foreign:
            record_stream(buffers, stream)


def _writable(buffer: Buffer, name: str) -> Buffer:
    if buffer.unwritable:
        raise invalid(f"{name} is {buffer.unwritable}, says its owner")
    return buffer


def _name(index: int, chain: Chain) -> str:
    inputs = chain.input_count
    return f"input {index}" if index < inputs else f"output {index - inputs}"


def _check_overlap(buffers: Sequence[Buffer], infos: Sequence[TensorInfo], chain: Chain) -> None:
    """Checks that an output shares no memory with an input or another output, unless the chain declares that it may."""
    first = chain.input_count
    shared = chain.aliases()
    for i in range(first, len(buffers)):
        for j in range(i):
            a, b = buffers[i].address, buffers[j].address
            if not _overlap(a, infos[i].bytes, b, infos[j].bytes):
                continue
            if shared.get(i - first) == j and a == b:
                continue
            raise invalid(f"{_name(i, chain)} overlaps {_name(j, chain)}, and the chain declares no alias of them")


def _overlap(a: int, a_bytes: int, b: int, b_bytes: int) -> bool:
    """Whether two ranges of memory share a byte."""
    return max(a, b) < min(a + a_bytes, b + b_bytes)


def _allocate(inputs: Sequence[Any], info: TensorInfo, index: int) -> Any:
    """An output, made by the library of the first torch or CuPy input."""
    for value in inputs:
        if is_torch(value):
            torch = torch_module()
            return torch.empty_strided(info.shape, info.strides, dtype=torch_dtype(info.dtype), device=value.device)
        if type(value).__module__.partition(".")[0] == "cupy":
            return _allocate_cupy(sys.modules["cupy"], info, index)
    raise invalid(f"output {index} cannot be made: no input is a torch or CuPy tensor; give it by out=")


_NOT_IN_CUPY = (DType.BF16, DType.E4M3, DType.S64)  # an output is never s64


def _allocate_cupy(cupy: Any, info: TensorInfo, index: int) -> Any:
    if info.dtype in _NOT_IN_CUPY:
        raise invalid(f"output {index} is {info.dtype}, which CuPy does not have: give it by out=")
    itemsize = info.dtype.itemsize
    memory = cupy.cuda.alloc(max(info.bytes, 1))
    return cupy.ndarray(info.shape, FACTS[info.dtype].name, memory, tuple(stride * itemsize for stride in info.strides))
