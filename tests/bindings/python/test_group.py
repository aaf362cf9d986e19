"""Groups of GPUs: two ranks as threads, on the fake driver's GPUs: FAKE_LIBCUDA_GPUS says that it has two."""

import gc
import os
import threading

import pytest

import sinter
from sinter import Error, Status, _callbacks, _group
from sinter._library import library

from conftest import Array
from test_close import watched


pytestmark = pytest.mark.skipif(os.environ.get("FAKE_LIBCUDA_GPUS") != "2", reason="the fake driver has one GPU")


def on_gpu(device):
    return sinter.Context(device=device, cache_dir="", driver_path=os.environ["FAKE_LIBCUDA"], log_level="off")


class Meeting:
    """An all-gather between threads."""

    def __init__(self, size=2):
        self.parts, self.met, self.calls = [None] * size, threading.Barrier(size, timeout=30), 0

    def of(self, rank):
        def gather(mine):
            self.parts[rank] = mine
            self.calls += 1
            self.met.wait()
            parts = list(self.parts)
            self.met.wait()
            return parts

        return gather


def on_all(work):
    """The results of `work(rank)`, returned or raised, on two threads."""
    results = [None, None]

    def run(rank):
        try:
            results[rank] = work(rank)
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def make_both(**options):
    meeting = Meeting()
    groups = on_all(lambda rank: sinter.Group(on_gpu(rank), rank, 2, meeting.of(rank), slot_bytes=1 << 16, **options))
    return meeting, groups


def test_two_ranks_meet_live_abort_and_close():
    meeting, groups = make_both()
    assert [group.rank for group in groups] == [0, 1] and repr(groups[1]) == "<sinter.Group rank 1 of 2>"
    assert meeting.calls >= 2
    assert all(group.error is None and group.missed is None for group in groups)
    groups[1].abort()
    assert groups[1].error.code == Status.ABORTED and groups[1].missed == 1
    before = meeting.calls
    assert on_all(lambda rank: groups[rank].close()) == [None, None]
    assert meeting.calls == before + 2


def test_memory_may_be_shared_by_file_descriptors():
    _, groups = make_both(descriptors=True)
    assert all(group.error is None for group in groups)
    assert on_all(lambda rank: groups[rank].close()) == [None, None]


def test_ranks_of_one_process(monkeypatch):
    first, second = sinter.Group.local([on_gpu(0), on_gpu(1)], slot_bytes=1 << 16)
    assert (first.rank, second.rank, first.size) == (0, 1, 2)
    first.abort()
    released = watched(monkeypatch, "error")
    assert first.missed == 0 and len([address for address in released if address]) == 1
    first.close()
    second.close()


def test_a_rank_that_differs_is_named():
    meeting = Meeting()
    errors = on_all(lambda rank: sinter.Group(on_gpu(rank), rank, 2, meeting.of(rank), slot_bytes=(1 + rank) << 16))
    for error in errors:
        assert isinstance(error, Error) and error.code == Status.FAILED_PRECONDITION
        assert "rank 1 has group.slot_bytes 131072, rank 0 has 65536" in error.message


def test_what_gather_raises_is_raised():
    def broken(mine):
        raise RuntimeError("no network")

    with pytest.raises(RuntimeError, match="no network"):
        sinter.Group(on_gpu(0), 0, 2, broken)
    with pytest.raises(Error, match="gather returned .* bytes, must be 2 times"):
        sinter.Group(on_gpu(0), 0, 2, lambda mine: [mine])
    gc.collect()


def test_callbacks_go_with_the_group():
    before = _callbacks.count()
    _, groups = make_both()
    assert _callbacks.count() == before + 2
    on_all(lambda rank: groups[rank].close())
    groups.clear()
    gc.collect()
    assert _callbacks.count() == before


def test_a_group_that_is_collected_unclosed_warns_ends_and_is_not_freed(monkeypatch):
    class Recorded:
        def __getattr__(self, name):
            called.append(name)
            return getattr(library(), name)

    before, called = _callbacks.count(), []
    _, groups = make_both()
    pointers = [group._get() for group in groups]
    monkeypatch.setattr("sinter._group.library", Recorded)
    monkeypatch.setattr("sinter._handle.library", Recorded)
    for rank in (1, 0):
        with pytest.warns(ResourceWarning, match=f"rank {rank} of a group of 2 was not closed"):
            groups.pop()
            gc.collect()
    assert called.count("sinter_group_abort") == 2 and "sinter_group_release" not in called and _callbacks.count() == before
    for pointer in pointers:  # here no other process has it open
        library().sinter_group_release(pointer)


def test_a_block_closes_its_group_or_ends_it():
    meeting, groups = make_both()
    before = meeting.calls

    def work(rank):
        with groups[rank] as group:
            assert group is groups[rank]

    assert on_all(work) == [None, None] and meeting.calls == before + 2
    _, groups = make_both()
    with pytest.raises(KeyError), groups[0]:
        raise KeyError
    assert groups[0].error.code == Status.ABORTED and groups[0].missed == 0
    assert on_all(lambda rank: groups[rank].close()) == [None, None]


def test_a_gather_raises_in_the_thread_of_its_call():
    from sinter._group import _Exchange

    met = threading.Barrier(2, timeout=30)

    def broken(mine):
        raise KeyError(threading.get_ident())

    exchange = _Exchange(broken, 2)

    def work(rank):
        with exchange:
            met.wait()
            exchange._run(0, 0, 0)
            met.wait()

    errors = on_all(work)
    assert [type(error) for error in errors] == [KeyError] * 2 and errors[0].args != errors[1].args
    _callbacks.forget(exchange.key)


def test_bad_arguments_are_errors_of_python():
    gather = Meeting().of(0)
    with pytest.raises(TypeError):
        sinter.Group("gpu", 0, 2, gather)
    with pytest.raises(Error, match="peers are 1, must be 2"):
        sinter.Group(on_gpu(0), 0, 2, gather, peers=[1 << 20])
    with pytest.raises(Error, match="group.size is 1, must be 2 to 8"):
        sinter.Group(on_gpu(0), 0, 1, gather)


@pytest.mark.parametrize("timeout", [-1, 0, 0.0001, float("nan"), float("inf"), -float("inf"), 2**32 / 1000, 1e300, 10**400])
def test_a_timeout_out_of_range_is_refused(timeout):
    gather = Meeting().of(0)
    for make in (
        lambda: sinter.Group(on_gpu(0), 0, 2, gather, timeout=timeout),
        lambda: sinter.Group.local([on_gpu(0), on_gpu(1)], timeout=timeout),
    ):
        with pytest.raises(Error, match="INVALID_ARGUMENT: timeout is "):
            make()


@pytest.mark.parametrize("timeout, ms", [(0.001, 1), (0.0015, 2), (10, 10000), (4294967.295, 2**32 - 1)])
def test_a_timeout_is_rounded_to_milliseconds(timeout, ms):
    assert _group._options(0, timeout).timeout_ms == ms


def test_a_chain_over_ranks_needs_a_group(context):
    chain = "all_reduce rows=M cols=64 ranks=2"
    assert context.prepare(chain, m=16).kernel_count == 1 and "all_reduce ranks=2" in context.prepare(chain, m=16).explain()
    plan, x, y = on_gpu(0).prepare(chain, m=16), Array((16, 64)), Array((16, 64), 2 << 20)
    with pytest.raises(TypeError, match="group is a str, not a sinter.Group"):
        plan.bind(x, out=y, group="both")
    for launch in (lambda: plan(x, out=y), lambda: plan.bind(x, out=y)()):
        with pytest.raises(Error, match="group") as raised:
            launch()
        assert raised.value.code == Status.FAILED_PRECONDITION
