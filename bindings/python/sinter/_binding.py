"""Bindings: plans with their buffers, launched or added to graphs."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

from . import _abi
from ._argument import flag, instance, integer, sequence
from ._buffers import Buffer, is_torch, torch_module
from ._error import Error, Status, invalid
from ._handle import Handle
from ._library import call, library
from ._stream import StreamLike, current, handle as stream_handle

if TYPE_CHECKING:
    from ._group import Group
    from ._plan import Plan


class Binding:
    """A plan with its buffers. Call it to launch. Thread-safe; keeps plan, buffers and workspaces alive.

    Attributes:
        plan: the plan that is launched.
        outputs: the outputs' objects, in order.
        m: the largest number of rows.
        group: the group of a chain that sums over ranks.
    """

    __slots__ = (
        "plan", "outputs", "m", "group", "_buffers", "_addresses", "_workspace", "_by_stream", "_lock", "_m_fixed"
    )

    def __init__(
        self,
        plan: "Plan",
        buffers: List[Buffer],
        outputs: Tuple[Any, ...],
        rows: int,
        workspace: List[Buffer],
        stream: int,
        group: "Optional[Group]" = None,
    ) -> None:
        self.plan = plan
        self.group = group
        self.outputs = outputs
        self.m = rows
        self._buffers = buffers + workspace
        self._addresses = (ctypes.c_uint64 * len(buffers))(*[buffer.address for buffer in buffers])
        self._workspace = workspace[0].address if workspace else None
        self._m_fixed = plan.chain.strides_use_m()
        self._lock = threading.Lock()
        self._by_stream: Dict[int, "Bound"] = {}
        self._bound(stream)

    def __call__(self, m: Optional[int] = None, *, stream: StreamLike = None, pdl: bool = False) -> Any:
        """Enqueues the kernels for `m` rows, by default all. Returns the output, or a tuple of several.

        Raises:
            Error: OUT_OF_RANGE for more rows than the buffers hold.
        """
        rows, pdl = self._rows(m), flag(pdl, "pdl")
        owners = [buffer.owner for buffer in self._buffers]
        on = current(owners, self.plan.context.device) if stream is None else stream_handle(stream)
        self._bound(on).launch(on, rows, pdl)
        if stream is not None:
            record_stream(self._buffers, on)
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs

    def add_to_graph(
        self,
        graph: int,
        dependencies: Sequence[int] = (),
        m: Optional[int] = None,
        *,
        stream: StreamLike = None,
        pdl: bool = False,
    ) -> "GraphNodes":
        """Adds the launches of a call to a CUDA graph, by hand. Buffers and workspace must outlive the graph.

        Args:
            graph: a CUgraph, such as ``torch.cuda.CUDAGraph(keep_graph=True).raw_cuda_graph()``.
            dependencies: CUgraphNodes of the graph that come before.
            m: rows; by default all.
            stream: the stream whose workspace the nodes use.
            pdl: programmatic edges from those dependencies that are kernels.

        Raises:
            Error: UNIMPLEMENTED on a driver older than CUDA 12.3; OUT_OF_RANGE, DRIVER.
        """
        symbols = symbols_of(self._rows(m))
        graph = integer(graph, "graph", 0, 2**64 - 1)
        before = [integer(node, f"dependencies[{i}]", 0, 2**64 - 1) for i, node in enumerate(sequence(dependencies, "dependencies"))]
        nodes = (ctypes.c_void_p * len(before))(*before)
        pointer = ctypes.c_void_p()
        flags = _abi.GRAPH_PDL if flag(pdl, "pdl") else 0
        bound = self._bound(stream_handle(stream) if stream is not None else 0)
        call(
            "sinter_binding_add_to_graph", bound._get(), graph, len(nodes), nodes, *symbols, flags, ctypes.byref(pointer)
        )
        return GraphNodes(pointer, self.plan.context.has_device)

    def _rows(self, m: Optional[int]) -> Optional[int]:
        """The rows of a launch, by default all; None for a chain without M.

        Raises:
            Error: OUT_OF_RANGE for more rows than the buffers hold; INVALID_ARGUMENT for fewer, if strides grow with M.
        """
        rows = self.m if m is None else integer(m, "m", 0, 2**31 - 1)
        uses_m = self.plan.chain.uses_m
        if rows > self.m and uses_m:
            raise Error(Status.OUT_OF_RANGE, f"m is {rows}, the buffers hold {self.m} rows")
        if self._m_fixed and rows != self.m:
            raise invalid(f"m is {rows}, and a stride of the chain grows with M: these buffers serve {self.m} rows only")
        return rows if uses_m else None

    def _bound(self, stream: int) -> "Bound":
        """The C binding with `stream`'s workspace, which the context frees."""
        if self._workspace is None and self.plan.workspace_size:
            self.plan.context._checked()
        found = self._by_stream.get(stream)
        if found is not None:
            return found
        with self._lock:
            found = self._by_stream.get(stream)
            if found is None:
                plan = self.plan
                address = self._workspace
                if address is None:
                    address = plan.context._workspaces.address(stream, plan.workspace_size)
                found = self._by_stream[stream] = Bound(plan, self._addresses, address, self.group)
            return found

    def __repr__(self) -> str:
        return f"<sinter.Binding of {self.plan!r} for {self.m} rows>"


class GraphNodes(Handle):
    """The nodes that one ``Binding.add_to_graph`` made. Keeps the plan alive, not the graph."""

    __slots__ = ()
    _release_name = "sinter_graph_nodes_release"

    def __init__(self, pointer: ctypes.c_void_p, drives: bool) -> None:
        super().__init__(pointer, drives=drives)

    def _told(self) -> str:
        return f"of {library().sinter_graph_nodes_get_count(self._get())} kernels"

    @property
    def nodes(self) -> List[int]:
        """The CUgraphNodes in the order in which they run; the last ends the plan."""
        lib, pointer = library(), self._get()
        return [int(lib.sinter_graph_nodes_get(pointer, i)) for i in range(lib.sinter_graph_nodes_get_count(pointer))]

    def update(self, exec: int, binding: Binding, m: Optional[int] = None, *, stream: StreamLike = None) -> None:
        """Sets the buffers of `binding`, of the same plan, and `m` rows in an instance of the graph (a CUgraphExec).

        Raises:
            Error: FAILED_PRECONDITION if the graph must be built again.
        """
        exec = integer(exec, "exec", 0, 2**64 - 1)
        binding = instance(binding, Binding, "binding")
        symbols = symbols_of(binding._rows(m))
        bound = binding._bound(stream_handle(stream) if stream is not None else 0)
        call("sinter_graph_nodes_update", self._get(), exec, bound._get(), *symbols)


class Bound(Handle):
    """One sinter_binding."""

    __slots__ = ()
    _release_name = "sinter_binding_release"

    def __init__(self, plan: "Plan", addresses: Any, workspace: int, group: "Optional[Group]" = None) -> None:
        pointer = ctypes.c_void_p()
        buffers = (plan._get(), len(addresses), addresses, workspace)
        if group is None:
            call("sinter_plan_bind", *buffers, ctypes.byref(pointer))
        else:
            with group._exchange:
                call("sinter_plan_bind_group", *buffers, group._get(), ctypes.byref(pointer))
        super().__init__(pointer, drives=plan.context.has_device)

    def launch(self, stream: int, rows: Optional[int], pdl: bool) -> None:
        call("sinter_binding_launch", self._get(), stream or None, *symbols_of(rows), _abi.LAUNCH_PDL if pdl else 0)


def symbols_of(rows: Optional[int]) -> "Tuple[int, Any]":
    """The symbols of a launch as their number and their values; None: the chain has no M."""
    return (0, None) if rows is None else (1, (ctypes.c_int64 * 1)(rows))


def record_stream(buffers: Sequence[Buffer], stream: int) -> None:
    """Records in torch's allocator that another stream than a tensor's own uses its memory."""
    for buffer in buffers:
        if buffer.ordered and is_torch(buffer.owner) and buffer.owner.is_cuda:
            cuda = torch_module().cuda
            if stream != cuda.current_stream(buffer.owner.device).cuda_stream:
                buffer.owner.record_stream(cuda.ExternalStream(stream, device=buffer.owner.device))
