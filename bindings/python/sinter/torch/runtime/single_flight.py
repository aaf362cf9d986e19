"""Values that are made once even if several threads ask for them, and counts of requests."""

from __future__ import annotations

import threading
from typing import Callable, Dict, Generic, Hashable, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

from ..._error import Error, Status

#: Errors that the next call would get again.
FINAL = (Status.NO_LEGAL_PLAN, Status.FAILED_PRECONDITION, Status.INVALID_ARGUMENT, Status.UNIMPLEMENTED, Status.UNAVAILABLE)

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Counts(NamedTuple):
    """What the operators of this process asked for since the start, or since ``reset``."""

    #: Plans that were prepared, in the cache or not.
    prepared: int = 0
    #: Prepares that failed.
    failed: int = 0
    #: Calls that waited for another thread's prepare of the same plan.
    waited: int = 0
    #: Calls that got a kept failure again, because asking again would not change it.
    refused: int = 0
    #: Layers of servers' models that a plugin computes; gated MLPs, if the plugin computes only those.
    layers: int = 0


class Counters:
    """Counters that several threads increment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = Counts()

    def add(self, prepared: int = 0, failed: int = 0, waited: int = 0, refused: int = 0, layers: int = 0) -> None:
        with self._lock:
            added = (prepared, failed, waited, refused, layers)
            self._now = Counts(*(before + more for before, more in zip(self._now, added)))

    def read(self) -> Counts:
        return self._now


class _Making:
    """One making in progress, for one key or several."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        #: The making's error, if it made only one key: with several keys the error belongs to no single one.
        self.failure: Optional[Error] = None


class Once(Generic[Key, Value]):
    """Values by key. The first thread that asks for a key makes its value; other threads that ask for it wait only for that value.

    No lock is held while a value is made. An error that asking again would not change is kept; any other is raised in
    the waiting threads, and the next call tries again. If the maker is interrupted, a waiting thread takes over. Thread-safe.
    """

    def __init__(self, counters: Counters) -> None:
        #: The values that are made; read without a lock.
        self.made: Dict[Key, Value] = {}
        self._counters = counters
        self._lock = threading.Lock()
        self._under_way: Dict[Key, _Making] = {}
        self._failures: Dict[Key, Error] = {}

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of `key`. If there is none, ``make()`` makes it.

        Raises:
            Error: the error of ``make`` in this thread, in the thread that this one waited for, or earlier if that error is kept.
        """
        return self.get_many([key], lambda keys: [make()])[0]

    def get_many(self, keys: Sequence[Key], make: Callable[[List[Key]], Sequence[Value]]) -> List[Value]:
        """The values of `keys`. One ``make(missing)`` makes those that nobody has made or is making."""
        while not all(key in self.made for key in keys):
            mine, making, others = self._claim(keys)
            if mine:
                self._make(mine, making, make)
            for other in others:
                other.ended.wait()
                if other.failure is not None:
                    raise anew(other.failure)
        return [self.made[key] for key in keys]

    def put(self, keys: Sequence[Key], values: Sequence[Value]) -> None:
        """Replaces the values of `keys` by `values`."""
        with self._lock:
            self.made.update(zip(keys, values))
            for key in keys:
                self._failures.pop(key, None)
        self._counters.add(prepared=len(keys))

    def _claim(self, keys: Sequence[Key]) -> "Tuple[List[Key], _Making, List[_Making]]":
        """The keys that this thread makes, its making, and the makings of other threads that it waits for."""
        mine, making, others = [], _Making(), []
        with self._lock:
            failure = next((self._failures[key] for key in keys if key in self._failures), None)
            if failure is None:
                for key in dict.fromkeys(keys):
                    if key in self._under_way:
                        others.append(self._under_way[key])
                    elif key not in self.made:
                        self._under_way[key] = making
                        mine.append(key)
        if failure is not None:
            self._counters.add(refused=1)
            raise anew(failure)
        self._counters.add(waited=1 if others else 0)
        return mine, making, others

    def _make(self, keys: List[Key], making: _Making, make: Callable[[List[Key]], Sequence[Value]]) -> None:
        try:
            values = make(keys)
            with self._lock:
                self.made.update(zip(keys, values))
            self._counters.add(prepared=len(keys))
        except Error as error:
            self._counters.add(failed=1)
            if len(keys) == 1:
                making.failure = anew(error)
                if error.code in FINAL:
                    self._failures[keys[0]] = making.failure
            raise
        finally:
            with self._lock:
                for key in keys:
                    del self._under_way[key]
            making.ended.set()


def anew(error: Error) -> Error:
    """The same error without the frames that it was raised through, which hold tensors alive."""
    return Error(*error.args)
