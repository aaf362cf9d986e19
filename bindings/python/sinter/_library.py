"""Finds and opens libsinter, and turns its errors into exceptions.

Opening it opens neither the driver nor a compiler.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
from typing import Any

from ._abi import PROTOTYPES
from ._error import Error, Status
from ._version import __version__

_BUNDLED = pathlib.Path(__file__).parent / "lib" / "libsinter.so.0"


def _open() -> ctypes.CDLL:
    """Opens the file that LIBSINTER_PATH names; else the wheel's own, else the loader's."""
    own = str(_BUNDLED) if _BUNDLED.exists() else "libsinter.so.0"
    try:
        return ctypes.CDLL(os.environ.get("LIBSINTER_PATH", "") or own)
    except OSError as reason:
        raise Error(Status.UNAVAILABLE, f"no libsinter: {reason} (LIBSINTER_PATH names the file to open)") from None


def _check_version(number: int) -> None:
    """Experimental functions and structs belong to one minor version."""
    found = f"{number // 10000}.{number // 100 % 100}"
    wanted = ".".join(__version__.split(".")[:2])
    if found != wanted:
        raise Error(
            Status.FAILED_PRECONDITION, f"libsinter is version {found}, this package is made for {wanted}"
        )


@functools.lru_cache(maxsize=None)
def library() -> Any:
    """The library, with a prototype at every function. Opened at the first call.

    Raises:
        Error: UNAVAILABLE without a library; FAILED_PRECONDITION for one of another version.
    """
    opened = _open()
    try:
        opened.sinter_version.restype = ctypes.c_uint32
        _check_version(opened.sinter_version())
        for name, (result, arguments) in PROTOTYPES.items():
            function = getattr(opened, name)
            function.restype = result
            function.argtypes = arguments
    except AttributeError as missing:
        raise Error(Status.FAILED_PRECONDITION, f"not a libsinter of this version: {missing}") from None
    return opened


def is_open() -> bool:
    """Whether the library was opened."""
    return library.cache_info().currsize > 0


def text(value: "bytes | None") -> str:
    """A string of the library."""
    return (value or b"").decode("utf-8", "replace")


def optional_text(value: "bytes | None") -> "str | None":
    """A string of the library that may be absent."""
    return None if value is None else text(value)


def raise_error(status: int, error: ctypes.c_void_p) -> None:
    """Raises the error of a call that returned `status`, and releases it."""
    lib = library()
    op = lib.sinter_error_get_op(error)
    try:
        raise Error(
            status,
            text(lib.sinter_error_get_message(error)),
            lib.sinter_error_get_driver_result(error),
            text(lib.sinter_error_get_compile_log(error)),
            None if op < 0 else op,
            optional_text(lib.sinter_error_get_field(error)),
            optional_text(lib.sinter_error_get_value(error)),
            optional_text(lib.sinter_error_get_bound(error)),
        )
    finally:
        lib.sinter_error_release(error)


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status.

    Raises:
        Error: the function's own.
    """
    error = ctypes.c_void_p()
    status = getattr(library(), name)(*arguments, ctypes.byref(error))
    if status != 0:
        raise_error(status, error)


def call_for_text(name: str, *arguments: Any) -> str:
    """Calls a function whose last out-parameter is a text that the caller owns."""
    out = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(out))
    return take_text(out)


def call_for_long_text(name: str, *arguments: Any) -> str:
    """Calls a function whose text comes by the two-call pattern, and may grow between two calls."""
    required, capacity = ctypes.c_size_t(), 1 << 15
    while True:
        buffer = ctypes.create_string_buffer(capacity)
        call(name, *arguments, capacity, buffer, ctypes.byref(required))
        if required.value <= capacity:
            return text(buffer.value)
        capacity = required.value


def take_text(handle: ctypes.c_void_p) -> str:
    """The content of a text, which is released."""
    try:
        return text(library().sinter_x_text_get(handle))
    finally:
        library().sinter_x_text_release(handle)


def call_for_digest(name: str, *arguments: Any) -> str:
    """Calls a function whose last out-parameter is 32 bytes; 64 hex digits."""
    digest = (ctypes.c_uint8 * 32)()
    call(name, *arguments, digest)
    return bytes(digest).hex()


def encode(value: Any, name: str) -> bytes:
    """A path or a string as the library takes it.

    Raises:
        TypeError: neither. Error: it holds a NUL, or half of a surrogate pair, which UTF-8 cannot encode.
    """
    try:
        data = os.fsencode(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, neither a string nor a path") from None
    except UnicodeEncodeError as reason:
        raise Error(Status.INVALID_ARGUMENT, f"{name} cannot be encoded: {reason}") from None
    if b"\0" in data:
        raise Error(Status.INVALID_ARGUMENT, f"{name} holds a NUL byte at {data.index(0)}")
    return data


def version() -> str:
    """Version of the library that was opened, for example "0.1.0"."""
    number = library().sinter_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def build_info() -> str:
    """One line: version, commit, compiler and build type of the library."""
    return text(library().sinter_build_info())
