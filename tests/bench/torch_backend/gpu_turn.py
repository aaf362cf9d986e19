"""A GPU that several processes measure on, one at a time."""

import contextlib
import fcntl
import time


class GpuTurn:
    """The right to use the GPU, by a lock on a file. `path`: of the file; `finish`: waits for what was enqueued."""

    def __init__(self, path, finish):
        self._file, self._finish = open(path, "w"), finish
        self._mine = False
        self.waited = 0.0  # seconds, for others

    def take(self):
        """Waits until no other process has it."""
        if not self._mine:
            began = time.time()
            fcntl.flock(self._file, fcntl.LOCK_EX)
            self.waited += time.time() - began
            self._mine = True

    def give(self):
        """Lets others have it, once what was enqueued is done."""
        if self._mine:
            self._finish()
            self._mine = False
            fcntl.flock(self._file, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def given(self):
        """Without it for a while, as for what compiles. What Inductor and the backend measure on the GPU while they compile takes it."""
        self.give()
        try:
            with _asked_for(self):
                yield
        finally:
            self.take()

    @contextlib.contextmanager
    def taken(self):
        """With it for a while."""
        had = self._mine
        self.take()
        try:
            yield
        finally:
            if not had:
                self.give()

    @contextlib.contextmanager
    def shared(self):
        """Together with others that share it, beside none that has it."""
        fcntl.flock(self._file, fcntl.LOCK_SH)
        yield
        fcntl.flock(self._file, fcntl.LOCK_UN)


@contextlib.contextmanager
def _asked_for(turn):
    """What measures on the GPU inside a compilation: whether padding a product gains, kernels of products, parts of the backend's."""
    from torch._inductor.fx_passes import pad_mm
    from torch._inductor.select_algorithm import AlgorithmSelectorCache
    from sinter.torch import _measure

    def wrapped(f):
        def g(*args, **kwargs):
            with turn.taken():
                return f(*args, **kwargs)

        return staticmethod(g) if f.__module__ == AlgorithmSelectorCache.__module__ else g

    places = (pad_mm, "_should_pad"), (AlgorithmSelectorCache, "benchmark_in_current_process"), (_measure, "_measure")
    before = [vars(of)[name] for of, name in places]
    for of, name in places:
        setattr(of, name, wrapped(getattr(of, name)))
    try:
        yield
    finally:
        for (of, name), value in zip(places, before):
            setattr(of, name, value)
