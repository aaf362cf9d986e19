"""The plan that a prepare would choose, without building it."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import TYPE_CHECKING, Any, Optional

from . import _abi, _callbacks
from ._chain import Chain
from ._library import call, library, text
from ._prepare import Progress, run_cancellable

if TYPE_CHECKING:
    from ._context import Context

_CHOICES = {number: word for word, number in _abi.CHOICE.items()}


@dataclasses.dataclass(frozen=True)
class Search:
    """The plan that a prepare would choose; nothing is built. Made by ``Context.search``.

    Attributes:
        bucket: the largest m that one pass of the plan serves.
        kernel_count: kernels that a launch enqueues.
        predicted_us: microseconds at the bucket's rows, as the cost model predicts them.
        unfused_us: the same for the unfused plan.
        workspace_size: bytes; may be 0.
        choice: "unfused" for the plain plan, else "fused".
        measured: whether a measurement chose the plan.
        name: "fused", one kernel; "unfused", a kernel for each op; "partly fused".
        note: for people: which ops share kernels, and why others do not.
    """

    bucket: int
    kernel_count: int
    predicted_us: float
    unfused_us: float
    workspace_size: int
    choice: str
    measured: bool
    name: str
    note: str


def search(context: "Context", chain: Chain, rows: int, options: Any, progress: Optional[Progress]) -> Search:
    """Runs the search on a separate thread, as ``run_cancellable`` does."""
    found = ctypes.c_void_p()

    def ask() -> None:
        with context._in_call() as pointer:
            call("sinter_context_search", pointer, chain._get(), rows, ctypes.byref(options), ctypes.byref(found))

    try:
        with _callbacks.reporting(options, progress) as key:
            run_cancellable(options, ask, "sinter.search")
        _callbacks.forget(key)
        return _read(found)
    finally:
        library().sinter_search_release(found)


def _read(found: ctypes.c_void_p) -> Search:
    lib = library()
    return Search(
        bucket=lib.sinter_search_get_bucket(found),
        kernel_count=lib.sinter_search_get_kernel_count(found),
        predicted_us=lib.sinter_search_get_predicted_us(found),
        unfused_us=lib.sinter_search_get_unfused_us(found),
        workspace_size=lib.sinter_search_get_workspace_size(found),
        choice=_CHOICES[lib.sinter_search_get_choice(found)],
        measured=lib.sinter_search_is_measured(found) != 0,
        name=text(lib.sinter_search_get_name(found)),
        note=text(lib.sinter_search_get_note(found)),
    )
