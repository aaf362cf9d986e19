"""The exception of the package."""

from __future__ import annotations

from typing import Union

from ._abi import Status as Status


class Error(RuntimeError):
    """What Sinter refused, or failed at.

    Attributes:
        code: a ``Status``, or a plain ``int`` of a newer library.
        message: one line that names the op or argument, the field, the value and the bound.
        driver_result: the ``CUresult`` behind ``Status.DRIVER``, else 0.
        compile_log: the compiler's log behind ``Status.COMPILE_FAILED``, else "".
    """

    def __init__(
        self, code: int, message: str, driver_result: int = 0, compile_log: str = ""
    ) -> None:
        super().__init__(code, message, driver_result, compile_log)
        self.code: Union[Status, int] = Status(code) if code in Status._value2member_map_ else code
        self.message = message
        self.driver_result = driver_result
        self.compile_log = compile_log

    def __str__(self) -> str:
        name = self.code.name if isinstance(self.code, Status) else str(self.code)
        return f"{name}: {self.message}"


def invalid(message: str) -> Error:
    """The error of an argument that the package itself refuses."""
    return Error(Status.INVALID_ARGUMENT, message)
