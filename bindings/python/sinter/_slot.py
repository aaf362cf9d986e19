"""Slots, which always hold the best plan so far."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Optional

from . import _abi, _callbacks
from ._argument import instance
from ._chain import Chain
from ._error import Status
from ._handle import Closable
from ._library import call, library, raise_error
from ._plan import Plan
from ._prepare import Pending, Progress, under_way

if TYPE_CHECKING:
    from ._context import Context


#: The generation of a slot whose plan consists of the library's prebuilt fallback kernels.
STAND_IN = 1


class Slot(Closable):
    """A slot always holds the best plan so far, for callers that must not wait; ``Context.slot`` makes one.

    Plans, bindings and graphs never change: to use a better plan, ask for it, bind it, and capture again.
    Thread-safe. When the last reference goes, a build under way is cancelled.
    """

    __slots__ = ("context", "chain", "_goes_on")
    _release_name = "sinter_slot_release"
    _close_seconds = 5

    def __init__(
        self, context: "Context", chain: Chain, rows: int, options: Any, manual: bool, progress: Optional[Progress]
    ) -> None:
        flags = _abi.SLOT_MANUAL if manual else 0
        pointer = ctypes.c_void_p()
        with _callbacks.reporting(options, progress) as key, context._in_call() as owner:
            call("sinter_slot_create", owner, chain._get(), rows, ctypes.byref(options), flags, ctypes.byref(pointer))
        super().__init__(pointer, key=key)
        self.context = context
        self.chain = chain
        #: Whether it may measure other plans in addition to the predicted one.
        self._goes_on: bool = options.measure > 0 or (options.measure == 0 and context._slots_measure)
        under_way.add(self)

    def _told(self) -> str:
        return f"of {self.chain!r}, generation {self.generation}"

    @property
    def generation(self) -> int:
        """0: no plan yet; 1: a stand-in; 2: the final plan; then one more for each offered plan.

        With ``manual`` the number may wait for ``switch``.
        """
        with self._in_call() as slot:
            return int(library().sinter_slot_get_generation(slot))

    def plan(self) -> "Optional[Plan]":
        """The current plan, without waiting; None if there is none yet.

        Raises:
            Error: the build's own, if it failed; FAILED_PRECONDITION in the child of a fork that does not run the build.
        """
        return self._plan(shares_workspace=True)

    def _plan(self, shares_workspace: bool) -> "Optional[Plan]":
        """`shares_workspace`: see ``Plan``."""
        pointer, error = ctypes.c_void_p(), ctypes.c_void_p()
        with self._in_call() as slot:
            status = library().sinter_slot_acquire(slot, ctypes.byref(pointer), ctypes.byref(error))
        if status == 0:
            return Plan(pointer, self.context, self.chain, shares_workspace)
        if status == Status.NOT_FOUND:
            library().sinter_error_release(error)
            return None
        raise_error(status, error)
        return None

    def offer(self, plan: "Plan") -> None:
        """Gives the slot a plan that was prepared elsewhere: by a context whose tuning set names a better choice.

        Raises:
            Error: INVALID_ARGUMENT for a plan of another chain, bucket or device; FAILED_PRECONDITION while the build
                is under way.
        """
        plan = instance(plan, Plan, "plan")
        with self._in_call() as slot:
            call("sinter_slot_offer", slot, plan._get())

    def switch(self) -> None:
        """Makes the newest plan current; only with ``manual``.

        Raises:
            Error: NOT_FOUND while it is being built, or the build's own; FAILED_PRECONDITION without ``manual``.
        """
        with self._in_call() as slot:
            call("sinter_slot_switch", slot)

    @property
    def build(self) -> Pending:
        """The build: to wait for it, to be called back, or to read its error. After a hit it has ended."""
        pointer = ctypes.c_void_p()
        with self._in_call() as slot:
            call("sinter_slot_get_build", slot, ctypes.byref(pointer))
        return Pending(pointer, self.context, self.chain, 0)

    def close(self) -> None:
        """Releases the slot. A caller that holds ``build`` keeps the build; else it is cancelled, and waited for outside of callbacks."""
        self._close()
