"""A GPU that several processes share, and that one has exclusively while it measures."""

import contextlib
import fcntl
import time


class GpuTurn:
    """The right to use the GPU, shared or exclusive, by locks on files. `path`: one lock's file, and the start of the other's name; `finish`:
    waits for what was enqueued; `tell`: is called with True when a wait for others begins, and with False at its end."""

    def __init__(self, path, finish, tell=lambda waits: None):
        self._use, self._gate = open(path, "w"), open(f"{path}.gate", "w")
        self._finish, self._tell = finish, tell
        self._mine = False
        self.waited = 0.0  # seconds, for others

    def take(self):
        """Waits until nobody has it alone, nor waits to."""
        if not self._mine:
            self._wait_for(fcntl.LOCK_SH)
            self._mine = True

    def give(self):
        """Lets others have it alone, once what was enqueued is done."""
        if self._mine:
            self._finish()
            self._mine = False
            fcntl.flock(self._use, fcntl.LOCK_UN)

    def let(self):
        """Lets a process that waits for exclusive use go first."""
        if self._mine:
            self.give()
            self.take()

    @contextlib.contextmanager
    def given(self):
        """Without it for a while, as for what compiles. What Inductor and the backend measure on the GPU while they compile has it alone."""
        self.give()
        try:
            with _asked_for(self):
                yield
        finally:
            self.take()

    @contextlib.contextmanager
    def alone(self):
        """Exclusive use for a while, as for measurements."""
        had = self._mine
        self.give()
        self._wait_for(fcntl.LOCK_EX)
        try:
            yield
        finally:
            self._finish()
            fcntl.flock(self._use, fcntl.LOCK_UN)
            if had:
                self.take()

    @contextlib.contextmanager
    def waiting(self):
        """Without it while another process works for this one, which counts as a wait."""
        had, began = self._mine, time.time()
        self.give()
        self._tell(True)
        try:
            yield
        finally:
            self._tell(False)
            self.waited += time.time() - began
            if had:
                self.take()

    def _wait_for(self, how):
        """Waits in the order of arrival: a process that waits for exclusive use keeps the gate closed."""
        began = time.time()
        self._tell(True)
        fcntl.flock(self._gate, how)
        fcntl.flock(self._use, how)
        fcntl.flock(self._gate, fcntl.LOCK_UN)
        self._tell(False)
        self.waited += time.time() - began


@contextlib.contextmanager
def _asked_for(turn):
    """What measures on the GPU inside a compilation: whether padding a product gains, kernels of products, parts of the backend's."""
    from torch._inductor.fx_passes import pad_mm
    from torch._inductor.select_algorithm import AlgorithmSelectorCache
    from sinter.torch.gate import measure

    def wrapped(f):
        def g(*args, **kwargs):
            with turn.alone():
                return f(*args, **kwargs)

        return staticmethod(g) if f.__module__ == AlgorithmSelectorCache.__module__ else g

    places = (pad_mm, "_should_pad"), (AlgorithmSelectorCache, "benchmark_in_current_process"), (measure, "_measure")
    before = [vars(of)[name] for of, name in places]
    for of, name in places:
        setattr(of, name, wrapped(getattr(of, name)))
    try:
        yield
    finally:
        for (of, name), value in zip(places, before):
            setattr(of, name, value)
