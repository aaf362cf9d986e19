"""The exception of the package."""

from __future__ import annotations

from typing import Optional, Union

from ._abi import Status as Status


class Error(RuntimeError):
    """An error of Sinter: a refused argument, or a failure.

    Attributes:
        code: a ``Status``, or a plain ``int`` of a newer library.
        message: one line that names the op or argument, the field, the value and the bound.
        op: the number of the op that the message names. For an add that failed, the number of values in the chain before it;
            for a finished chain, its place in canonical order. None: the message names no op.
        field: the argument, option or operand that the message names, such as "prepare.measure", or None.
        value: the value found, such as "65", or None.
        bound: the required value, such as "in [-1, 64]", or None.
        driver_result: the ``CUresult`` of ``Status.DRIVER``, else 0.
        compile_log: the compiler's log for ``Status.COMPILE_FAILED``, else "".
    """

    def __init__(
        self,
        code: int,
        message: str,
        driver_result: int = 0,
        compile_log: str = "",
        op: Optional[int] = None,
        field: Optional[str] = None,
        value: Optional[str] = None,
        bound: Optional[str] = None,
    ) -> None:
        super().__init__(code, message, driver_result, compile_log, op, field, value, bound)
        self.code: Union[Status, int] = Status(code) if code in Status._value2member_map_ else code
        self.message = message
        self.op, self.field, self.value, self.bound = op, field, value, bound
        self.driver_result = driver_result
        self.compile_log = compile_log

    def __str__(self) -> str:
        name = self.code.name if isinstance(self.code, Status) else str(self.code)
        return f"{name}: {self.message}"


def invalid(message: str, field: Optional[str] = None, value: object = None, bound: Optional[str] = None) -> Error:
    """The error of an argument that the package itself refuses; `message` has the fields that are given."""
    return Error(Status.INVALID_ARGUMENT, message, field=field, value=None if value is None else str(value), bound=bound)
