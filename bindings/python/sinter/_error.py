"""The exception of the package."""

from __future__ import annotations

import enum
from typing import Union


class Status(enum.IntEnum):
    """Why a call failed: the codes of ``sinter_status``. 1 to 16 are those of gRPC."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16
    COMPILE_FAILED = 100
    NO_LEGAL_PLAN = 101
    DRIVER = 102
    CACHE_CORRUPT = 103
    STREAM_CAPTURING = 104
    CACHE_MISS = 105


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
