"""Threads that want the same plan, others, and one that is ready, while a slow stand-in prepares."""

import sys
import threading

import pytest

pytest.importorskip("torch")

import sinter
from sinter.torch.runtime import single_flight, store as store_module

from conftest import SMALL
from test_torch import FakeContext, LINE, store  # noqa: F401


class SlowContext(FakeContext):
    """A prepare of `slow` rows begins, and ends when it is let go."""

    def __init__(self, slow):
        super().__init__()
        self.slow, self.begun, self.go = slow, threading.Event(), threading.Event()

    def prepare_many(self, chains, ms):
        if self.slow in ms:
            self.begun.set()
            assert self.go.wait(30)
        return super().prepare_many(chains, ms)


@pytest.fixture
def slow(store):
    context = SlowContext(9)
    store.use(context)
    yield context
    context.go.set()


class Asking(threading.Thread):
    """Calls `work` on a thread, and keeps what came of it."""

    def __init__(self, work):
        super().__init__(daemon=True)
        self.work, self.result, self.failure = work, None, None
        self.start()

    def run(self):
        try:
            self.result = self.work()
        except BaseException as failure:
            self.failure = failure

    def ended(self, within=30):
        self.join(within)
        return not self.is_alive()


def until(condition):
    for _ in range(3000):
        if condition():
            return True
        threading.Event().wait(0.01)
    return False


CHAIN = sinter.Chain.of(SMALL)


def digests(store, sizes):
    return {size: plan.digest for size, plan in zip(sizes, store.prepare_chain(0, CHAIN, "key", sizes))}


FINDS = {
    "chains": lambda store, rows: store.find_chain(0, CHAIN, "key", rows),
    "prepared chains": lambda store, rows: digests(store, [rows])[rows],
    "operators": lambda store, rows: store.find(0, LINE, rows),
    "models": lambda store, rows: store.prepare(store.context(0), [LINE], [rows])[LINE, rows],
}


@pytest.mark.parametrize("how", FINDS)
def test_a_plan_that_is_ready_waits_for_no_compiler(store, slow, how):
    find = FINDS[how]
    ready = find(store, 5)
    one = Asking(lambda: find(store, 9))
    assert slow.begun.wait(30)
    other = Asking(lambda: (find(store, 5), find(store, 7)))  # one that is there, and one to be made meanwhile
    assert other.ended() and other.failure is None and other.result[0] == ready and one.is_alive()
    slow.go.set()
    assert one.ended() and one.failure is None and slow.prepared == [5, 7, 9]


@pytest.mark.parametrize("how", FINDS)
def test_threads_that_want_one_plan_prepare_it_once(store, slow, how):
    asking = [Asking(lambda: FINDS[how](store, 9)) for _ in range(8)]
    assert slow.begun.wait(30) and until(lambda: store.counts().waited == 7)
    assert all(thread.is_alive() for thread in asking)
    slow.go.set()
    assert all(thread.ended() and thread.failure is None for thread in asking)
    assert slow.prepared == [9] and len({id(thread.result) if how == "chains" else str(thread.result) for thread in asking}) == 1
    assert store.counts() == single_flight.Counts(prepared=1, waited=7)


def test_sizes_that_overlap_are_prepared_once(store, slow):
    first = Asking(lambda: digests(store, [8, 9]))
    assert slow.begun.wait(30)
    second = Asking(lambda: digests(store, [9, 16]))
    assert until(lambda: slow.prepared == [16]) and second.is_alive()
    slow.go.set()
    assert first.ended() and second.ended() and slow.prepared == [16, 8, 9]
    assert first.result == {8: "8", 9: "9"} and second.result == {9: "9", 16: "16"}


@pytest.mark.parametrize("code, kept", [(sinter.Status.NO_LEGAL_PLAN, True), (sinter.Status.RESOURCE_EXHAUSTED, False)])
def test_a_failure_is_that_of_all_who_waited(store, slow, code, kept):
    asking = [Asking(lambda: store.find_chain(0, CHAIN, "key", 9)) for _ in range(3)]
    assert slow.begun.wait(30) and until(lambda: store.counts().waited == 2)
    slow.fails = sinter.Error(code, "not this one")
    slow.go.set()
    assert all(thread.ended() and thread.failure.code == code for thread in asking)
    assert len({id(thread.failure) for thread in asking}) == 3  # each with frames of its own
    slow.fails = None
    assert store.counts() == single_flight.Counts(failed=1, waited=2)
    if kept:
        with pytest.raises(sinter.Error, match="not this one"):
            store.find_chain(0, CHAIN, "key", 9)
        assert store.counts().refused == 1 and slow.prepared == []
    else:
        assert store.find_chain(0, CHAIN, "key", 9).digest == "9"
    assert store.find_chain(0, CHAIN, "key", 8).digest == "8"


def test_a_failure_of_several_is_kept_for_none(store):
    store.fake.fails = sinter.Error(sinter.Status.NO_LEGAL_PLAN, "one of them")
    with pytest.raises(sinter.Error, match="one of them"):
        digests(store, [8, 16])
    store.fake.fails = None
    assert digests(store, [8]) == {8: "8"}


def test_who_waits_goes_on_when_the_maker_is_interrupted():
    once, begun, go = single_flight.Once(single_flight.Counters()), threading.Event(), threading.Event()

    def interrupted():
        begun.set()
        assert go.wait(30)
        raise KeyboardInterrupt

    one = Asking(lambda: once.get(1, interrupted))
    assert begun.wait(30)
    other = Asking(lambda: once.get(1, lambda: "made"))
    assert until(lambda: once._counters.read().waited == 1)
    go.set()
    assert one.ended() and type(one.failure) is KeyboardInterrupt
    assert other.ended() and other.result == "made"


def test_a_kept_failure_holds_no_tensors(store):
    store.fake.fails = sinter.Error(sinter.Status.NO_LEGAL_PLAN, "never")
    for find in (FINDS["chains"], FINDS["operators"]):
        depths = []
        for _ in range(3):
            with pytest.raises(sinter.Error, match="never") as caught:
                find(store, 9)
            depths.append(len(caught.traceback))
        assert depths[1] == depths[2]
    assert store._on(0).plans(LINE).refused.__traceback__ is None


def test_plans_of_a_context_that_was_replaced_are_dropped(store, slow):
    one = Asking(lambda: store.find_chain(0, CHAIN, "key", 9))
    assert slow.begun.wait(30)
    store.use(FakeContext())
    slow.go.set()
    assert one.ended() and one.result.context is slow
    assert store.find_chain(0, CHAIN, "key", 9).context is store.context(0) is not slow


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_child_of_a_fork_waits_for_nobody():
    from test_process import in_child

    slow = SlowContext(9)
    store_module.store.use(slow)
    one = Asking(lambda: digests(store_module.store, [9]))
    try:
        assert slow.begun.wait(30)

        def work():
            assert not store_module.store._devices and store_module.store.counts() == single_flight.Counts()
            store_module.store.use(FakeContext())
            return digests(store_module.store, [9]) == {9: "9"}

        assert in_child(work) == 0
    finally:
        slow.go.set()
        assert one.ended() and one.failure is None
        store_module.reset()
