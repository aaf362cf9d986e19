"""Choices that were measured."""

from __future__ import annotations

import ctypes
import os
from typing import Union

from ._handle import Handle
from ._library import call, call_for_digest, encode, library


class TuningSet(Handle):
    """What ``Context.tune`` adds to and ``Context(tuning_set=path)`` reads. Thread-safe.

    A child of a fork opens the file again: a set that another thread was adding to at the fork stays locked there.
    """

    __slots__ = ()
    _release_name = "sinter_tuning_set_release"

    def __init__(self) -> None:
        pointer = ctypes.c_void_p()
        call("sinter_tuning_set_create", ctypes.byref(pointer))
        super().__init__(pointer)

    def add_file(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Adds the entries of a file; they replace equal ones.

        Raises:
            Error: INVALID_ARGUMENT with path and reason when it cannot be read, is damaged or of another format.
        """
        call("sinter_tuning_set_add_file", self._get(), encode(path, "path"))

    def write(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Writes a new file and renames it to `path`.

        Raises:
            Error: INVALID_ARGUMENT with path and reason.
        """
        call("sinter_tuning_set_write", self._get(), encode(path, "path"))

    def _told(self) -> str:
        return f"of {len(self)} entries"

    def __len__(self) -> int:
        return int(library().sinter_tuning_set_get_count(self._get()))

    @property
    def digest(self) -> str:
        """The digest of the set's canonical text, 64 hex digits."""
        return call_for_digest("sinter_tuning_set_get_digest", self._get())
