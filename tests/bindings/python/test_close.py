"""When objects that can be closed are released: after the last call with them, and at once if there is none."""

import ctypes
import gc
import os
import sys
import threading
import time

import pytest

import sinter
from sinter import _callbacks, _library, _prepare

from conftest import SMALL


@pytest.fixture
def refusing():
    """A context whose prepares fail."""
    with sinter.Context(target="h200", cache_dir="", must_hit=True, log_level="off") as context:
        yield context


@pytest.fixture
def given_back(monkeypatch):
    """The addresses of objects that were given back, in order."""
    return watched(monkeypatch, "pending", "slot", "context")


def watched(monkeypatch, *kinds):
    gc.collect()  # what earlier tests left in cycles
    found, library = [], _library.library()
    for kind in kinds:

        def release(pointer, own=getattr(library, f"sinter_{kind}_release")):
            found.append(pointer.value)
            own(pointer)

        monkeypatch.setattr(library, f"sinter_{kind}_release", release)
    return found


def seconds(work):
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def error_of(work):
    """The error with the frames that it was raised through."""
    with pytest.raises(sinter.Error) as caught:
        work()
    return caught.value


def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def until(holds):
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_an_error_that_is_kept_holds_nothing_up(refusing, given_back, need_compiler):
    pending, slot = refusing.prepare_async(SMALL, m=8), refusing.slot(SMALL, m=8)
    kept = [error_of(pending.result), error_of(slot.build.result), error_of(slot.plan), error_of(slot.switch)]
    del given_back[:]
    assert seconds(pending.close) < 3 and seconds(slot.close) < 3
    assert len(given_back) == 2 and all(error.__traceback__ for error in kept)


def test_a_context_is_given_back_though_an_error_is_kept(given_back, need_compiler):
    context = sinter.Context(target="h200", cache_dir="")
    kept = error_of(lambda: context.deny_toolchains("zzz")), error_of(lambda: context.prepare(SMALL, m=-1))
    context.close()
    assert len(given_back) == 1 and all(error.__traceback__ for error in kept)


def test_every_error_of_the_library_is_given_back_once(refusing, gpu, launchable, buffers, monkeypatch):
    *inputs, out = buffers
    released, bound = watched(monkeypatch, "error"), launchable.bind(*inputs, out=out)._bound(0)
    pending, slot = refusing.prepare_async(SMALL, m=8), refusing.slot(SMALL, m=8)
    error_of(pending.result), error_of(slot.build.result)
    uses = (
        lambda: refusing.deny_toolchains("zzz"),
        pending.result,
        slot.plan,
        lambda: launchable._launch((ctypes.c_uint64 * 0)(), 0, 0, 7, False),
        lambda: bound.launch(0, 1 << 20, False),
    )
    for use in uses:
        del released[:]
        assert error_of(use).message and len([address for address in released if address]) == 1


def test_a_slot_without_a_plan_yet_gives_its_error_back(need_compiler, monkeypatch):
    released, go = watched(monkeypatch, "error"), threading.Event()
    with sinter.Context(target="h200", cache_dir="") as context:
        slot = context.slot(SMALL, m=8, progress=lambda *_: go.wait(60))
        assert slot.plan() is None and len([address for address in released if address]) == 1
        go.set()
        assert slot.build.result().bucket == 8
        slot.close()


def test_the_garbage_collector_does_not_wait(refusing, given_back, need_compiler):
    slot = refusing.slot(SMALL, m=8)
    kept = error_of(slot.switch)
    kept.itself = kept
    gc.collect()
    del given_back[:], slot, kept
    assert seconds(gc.collect) < 3 and len(given_back) == 1


def test_an_object_may_be_closed_in_its_own_callback(refusing, given_back, need_compiler):
    """The callback runs inside the call that asks for it; after that call the object is released."""
    pending, seen = refusing.prepare_async(SMALL, m=8), []
    error_of(pending.result)

    def close():
        seen.append((seconds(pending.close), list(given_back)))

    pending.add_done_callback(close)
    assert seen[0][0] < 3 and seen[0][1] == [] and len(given_back) == 1
    assert "closed" in str(error_of(pending.result))


def test_a_callback_on_a_thread_of_the_library_may_close(given_back, need_compiler):
    """While another thread waits for the same prepare."""
    go, seen, ends = threading.Event(), [], []
    with sinter.Context(target="h200", cache_dir="") as context:
        pending = context.prepare_async(SMALL, m=8, progress=lambda *_: go.wait(60))
        pending.add_done_callback(lambda: seen.append(seconds(pending.close)))

        def wait():
            try:
                ends.append(pending.result().bucket)
            except sinter.Error as error:
                ends.append(str(error))

        waiting = [in_thread(wait) for _ in range(2)]
        time.sleep(0.02)
        go.set()
        for thread in waiting:
            thread.join(10)
        pending.close()
        until(lambda: seen)
        assert len(seen) == 1 and seen[0] < 3
        assert len(ends) == 2 and all(end == 8 or "closed" in end for end in ends)
    assert len(given_back) == 2  # the context too


def test_progress_may_close(given_back, need_compiler):
    made, seen = threading.Event(), []
    with sinter.Context(target="h200", cache_dir="") as context:

        def close(*_):
            made.wait(60)
            seen.append(seconds(pending.close))

        pending = context.prepare_async(SMALL, m=8, progress=close)
        made.set()
        until(lambda: given_back)
    assert seen and max(seen) < 3


def test_a_call_on_another_thread_is_waited_for(refusing, given_back, need_compiler):
    """The call releases the object when it ends, not before."""
    pending, inside, go, closed = refusing.prepare_async(SMALL, m=8), threading.Event(), threading.Event(), threading.Event()
    error_of(pending.result)

    def stay():
        inside.set()
        go.wait(60)

    def close():
        pending.close()
        closed.set()

    caller = in_thread(lambda: pending.add_done_callback(stay))
    assert inside.wait(60)
    closers = [in_thread(close) for _ in range(2)]
    assert not closed.wait(0.2) and given_back == []
    assert pending.done() and "closed" in str(error_of(pending.fileno)) and given_back == []
    go.set()
    for thread in (caller, *closers):
        thread.join(10)
    assert closed.is_set() and len(given_back) == 1


def test_closing_gives_up_after_a_while(refusing, given_back, need_compiler, monkeypatch):
    monkeypatch.setattr(sinter.Pending, "_close_seconds", 0.1)
    pending, inside, go = refusing.prepare_async(SMALL, m=8), threading.Event(), threading.Event()
    error_of(pending.result)
    caller = in_thread(lambda: pending.add_done_callback(lambda: (inside.set(), go.wait(60))))
    assert inside.wait(60)
    assert 0.05 < seconds(pending.close) < 2 and given_back == []
    go.set()
    caller.join(10)
    assert len(given_back) == 1


def test_plans_of_an_interrupted_prepare_are_given_back(context, need_compiler, monkeypatch):
    given_back = watched(monkeypatch, "plan")

    def interrupt(thread, cancel):
        thread.start()
        thread.join()
        raise KeyboardInterrupt

    monkeypatch.setattr(_prepare, "_wait_for", interrupt)
    with pytest.raises(KeyboardInterrupt):
        context.prepare_many([SMALL, SMALL], [8, 8])
    gc.collect()
    assert len(given_back) == 2


def test_a_callback_that_exits_is_forgotten(refusing, need_compiler, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda what: None)
    pending = refusing.prepare_async(SMALL, m=8)
    error_of(pending.result)
    before = _callbacks.count()
    pending.add_done_callback(sys.exit)
    assert _callbacks.count() == before


def test_two_threads_close_a_context_with_workspaces(gpu, given_back, monkeypatch):
    """The second is done while the first still frees memory."""
    context = sinter.Context(0, driver_path=os.environ["FAKE_LIBCUDA"], cache_dir="")
    for stream in (0, 0xABC0):
        context._workspaces.address(stream, 1000)
    freeing, go, failures, freed, library = threading.Event(), threading.Event(), [], [], _library.library()

    def free(*arguments, own=library.sinter_x_device_free):
        freeing.set()
        go.wait(60)
        freed.append(arguments)
        own(*arguments)

    def close():
        try:
            context.close()
        except BaseException as failure:
            failures.append(failure)

    monkeypatch.setattr(library, "sinter_x_device_free", free)
    first = in_thread(close)
    assert freeing.wait(60)
    context.close()
    assert given_back == []
    go.set()
    first.join(10)
    assert not failures and len(freed) == 2 and len(given_back) == 1
