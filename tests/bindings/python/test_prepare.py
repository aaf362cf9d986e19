"""Contexts and plans for a target without a GPU."""

import _thread
import asyncio
import copy
import os
import pickle
import select
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

import pytest

import sinter
from sinter import _callbacks

from conftest import S8, SMALL

COLD = "gated_ffn m=M n={} k=1024 l=1024 act=silu dtype=bf16"


def test_plan_tells_of_itself(plan):
    assert plan.bucket == 128 and plan.kernel_count >= 1 and plan.name in ("fused", "partly fused") and plan.predicted_us > 0
    assert len(plan.digest) == 64 and plan.chain.line.startswith("gated_ffn")
    assert plan.explain().startswith("plan") and str(plan) in plan.explain() or plan.summary()
    assert "device model" in plan.explain() or "model" in plan.explain()
    assert "__global__" in plan.source(0)
    assert len(plan.to_json()["kernels"]) == plan.kernel_count
    assert f"m<={plan.bucket}" in repr(plan)


def test_plan_draws_itself(plan):
    drawn = plan._repr_svg_()
    assert drawn == plan.svg() and xml.etree.ElementTree.fromstring(drawn).tag.endswith("svg")


def test_context_tells_of_itself(context):
    assert not context.has_device and context.device is None and context.target == "h200" and "h200" in repr(context)
    assert context.describe()["model"] and context.tuning_digest == "0" * 64
    stats = context.stats()
    assert stats.prepares >= 0 and isinstance(stats.search_us, float)
    assert "\nsinter_prepares_total %d\n" % stats.prepares in context.metrics()


def test_equal_chains_share_a_plan(context, plan):
    before = context.stats()
    again = context.prepare(sinter.Chain.of(S8), m=120)
    after = context.stats()
    assert again.digest == plan.digest and after.searched == before.searched and after.plan_hits == before.plan_hits + 1
    assert context.prepare(S8, m=0).bucket <= 8


def test_prepare_takes_m_from_the_text(context, need_compiler):
    assert context.prepare("rmsnorm rows=8 cols=64 dtype=bf16").bucket == 8


def test_prepare_many(context, need_compiler):
    heard = []
    plans = context.prepare_many([SMALL, SMALL], [1, 100], threads=2, progress=lambda *now: heard.append(now))
    assert [plan.bucket >= m for plan, m in zip(plans, (1, 100))] == [True, True]
    assert all(isinstance(stage, str) and 0 <= fraction <= 1 for stage, fraction in heard)
    assert context.prepare_many([]) == []
    with pytest.raises(sinter.Error, match="chain 1|index 1|1"):
        context.prepare_many([SMALL, "matmul m=M n=64 k=64 dtype=f32"], [1, 1])


def test_prepare_async(context, need_compiler):
    pending = context.prepare_async(SMALL, m=8)
    plan = pending.result(timeout=60)
    assert pending.done() and pending.result().digest == plan.digest

    async def both():
        return await asyncio.gather(context.prepare_async(SMALL, m=8), context.prepare_async(SMALL, m=100))

    assert [plan.bucket >= 8 for plan in asyncio.run(both())] == [True, True]

    async def twice():
        one = context.prepare_async(SMALL, m=8)
        return await asyncio.gather(one._wait(), one._wait())

    first, second = asyncio.run(twice())
    assert first.digest == second.digest == plan.digest


def test_who_waits_is_told(context, need_compiler):
    told, ended = [], threading.Event()

    def tell():
        told.append(pending.done())
        ended.set()

    pending = context.prepare_async(SMALL, m=8)
    pending.add_done_callback(tell)
    assert select.select([pending], [], [], 60)[0] == [pending] and pending.done()
    assert ended.wait(60)
    pending.add_done_callback(tell)
    assert told == [True] * 2
    pending.close()
    with pytest.raises(sinter.Error, match="the Pending is closed"):
        pending.fileno()
    with pytest.raises(TypeError):
        context.prepare_async(SMALL, m=8).add_done_callback(1)


def test_a_slot_holds_the_best_plan_so_far(context, plan):
    slot = context.slot(plan.chain, m=plan.bucket)
    assert slot.generation == 2 and slot.plan().digest == plan.digest and slot.build.done()
    with pytest.raises(sinter.Error, match="SINTER_SLOT_MANUAL"):
        slot.switch()
    slot.offer(plan)
    assert slot.generation == 3 and slot.plan().digest == plan.digest
    with pytest.raises(TypeError, match="plan is a NoneType, not a sinter.Plan"):
        slot.offer(None)
    with pytest.raises(sinter.Error, match="bucket"):
        slot.offer(context.prepare(plan.chain, m=4 * plan.bucket))
    slot.close()
    with pytest.raises(sinter.Error, match="the Slot is closed"):
        slot.plan()


def test_a_slots_plan_comes_from_the_background(need_compiler):
    go = threading.Event()
    with sinter.Context(target="h200", cache_dir="") as context:
        slot = context.slot(SMALL, m=8, manual=True, progress=lambda *_: go.wait(60))
        assert slot.plan() is None and slot.generation == 0 and context.stats().slots_building == 1
        with pytest.raises(sinter.Error, match="NOT_FOUND"):
            slot.switch()
        go.set()
        assert asyncio.run(slot.build._wait()).bucket == 8
        assert slot.plan() is None and slot.generation == 2
        slot.switch()
        assert slot.plan().bucket == 8 and context.stats().slot_upgrades == 1
        slot.close()


def test_a_slot_without_a_gpu_measures_nothing(need_compiler):
    with sinter.Context(target="h200", cache_dir="", slot_measure=True) as context:
        slot = context.slot(SMALL, m=8)
        assert asyncio.run(slot.build._wait()).bucket == 8
        slot.close()
        stats = context.stats()
        assert (stats.slots_measuring, stats.slot_measurements, stats.slot_measurements_given_up) == (0, 0, 0)


def test_what_is_measured_first_needs_a_gpu(need_compiler):
    with sinter.Context(target="h200", cache_dir="") as context:
        with pytest.raises(sinter.Error, match=r"UNAVAILABLE.*prepare.measure is 11, but no measured choice is kept .*sinter warm --measure"):
            context.prepare(SMALL, m=8, measure=11)
        assert context.prepare(SMALL, m=8, measure=-1).bucket == 8
        with pytest.raises(sinter.Error, match="INVALID_ARGUMENT.*SINTER_PREPARE_NO_BUILD"):
            context.prepare(SMALL, m=8, measure=11, no_build=True)
        with pytest.raises(sinter.Error, match="INVALID_ARGUMENT.*prepare.choice"):
            context.prepare(SMALL, m=8, measure=11, choice="unfused")
        with pytest.raises(sinter.Error, match="measure is 65"):
            context.prepare_many([SMALL], [8], measure=65)
        with pytest.raises(TypeError, match="measure is True"):
            context.prepare(SMALL, m=8, measure=True)
    with sinter.Context(target="h200", cache_dir="", measure=11) as context:
        assert context.prepare(SMALL, m=8).bucket == 8  # nothing is measured where nothing can be
        slot = context.slot(SMALL, m=8)
        assert asyncio.run(slot.build._wait()).bucket == 8
        slot.close()
        assert context.stats().measurements == context.stats().measurements_given_up == 0


def test_a_slots_failure_is_kept(need_compiler):
    with sinter.Context(target="h200", cache_dir="", must_hit=True, log_level="off") as context:
        slot = context.slot(SMALL, m=8)
        with pytest.raises(sinter.Error, match="CACHE_MISS"):
            slot.build.result()
        for _ in range(2):
            with pytest.raises(sinter.Error, match="CACHE_MISS"):
                slot.plan()
        assert context.stats().slot_failures == 1
        with pytest.raises(sinter.Error, match="INVALID_ARGUMENT"):
            context.slot(SMALL, m=-1)


def test_a_dropped_pending_is_cancelled(cache_dir, need_compiler):
    with sinter.Context(target="h200", cache_dir="") as context:
        start = time.monotonic()
        pending = context.prepare_async(COLD.format(8000), m=128)
        pending.cancel()
        assert time.monotonic() - start < 10
        with pytest.raises(sinter.Error, match="the Pending is closed"):
            pending.result()
        pending.close()


def test_a_pending_is_cancelled_while_threads_wait(need_compiler):
    with sinter.Context(target="h200", cache_dir="") as context:
        for n in range(8104, 8104 + 8 * 8, 8):
            pending = context.prepare_async(COLD.format(n), m=128)
            ends = []

            def wait():
                try:
                    pending.result()
                except sinter.Error as error:
                    ends.append(str(error))

            threads = [threading.Thread(target=wait) for _ in range(3)]
            for thread in threads:
                thread.start()
            time.sleep(0.01)
            pending.cancel()
            for thread in threads:
                thread.join(10)
            assert len(ends) == 3 and all("closed" in end or "cancelled" in end for end in ends)


def test_awaiting_can_be_cancelled(need_compiler):
    async def run(context):
        task = asyncio.ensure_future(context.prepare_async(COLD.format(8008), m=128)._wait())
        await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with sinter.Context(target="h200", cache_dir="") as context:
        asyncio.run(run(context))


def test_every_object_has_a_repr(cache_dir, need_compiler):
    context = sinter.Context(target="h200", cache_dir=cache_dir)
    slot, pending = context.slot(SMALL, m=8), context.prepare_async(SMALL, m=8)
    pending.result(), slot.build.result()
    assert repr(slot) == f"<sinter.Slot of {slot.chain!r}, generation 2>" and "rmsnorm" in repr(slot)
    assert repr(pending) == f"<sinter.Pending of {pending.chain!r}, ended>"
    assert repr(sinter.TuningSet()) == "<sinter.TuningSet of 0 entries>"
    assert repr(sinter.Builder()) == "<sinter.Builder with 0 outputs>"
    for item in (context, slot, pending):
        item.close()
        assert repr(item) == f"<sinter.{type(item).__name__} (closed)>"


def test_awaiting_runs_no_callback(need_compiler):
    async def run(context):
        before, pending = _callbacks.count(), context.prepare_async(SMALL, m=8)
        task = asyncio.ensure_future(pending._wait())
        await asyncio.sleep(0)
        assert _callbacks.count() == before
        assert (await task).bucket == 8

    with sinter.Context(target="h200", cache_dir="") as context:
        asyncio.run(run(context))


def test_awaiting_needs_no_descriptor_and_no_loop_that_watches_one(need_compiler, monkeypatch):
    async def run(context):
        plans = await asyncio.gather(*[context.prepare_async(SMALL, m=m)._wait() for m in (8, 120)])
        assert plans[0].bucket == 8 and plans[1].bucket == 128

    def refuse(*_):
        raise NotImplementedError

    with sinter.Context(target="h200", cache_dir="") as context:
        with monkeypatch.context() as patch:
            patch.setattr(asyncio.SelectorEventLoop, "add_reader", refuse)
            asyncio.run(run(context))
        with monkeypatch.context() as patch:
            patch.setattr("sinter._prepare.os.dup", lambda fd: os.open("/no such file", 0))
            asyncio.run(run(context))


def test_awaiting_leaves_no_descriptor_open(context, need_compiler):
    async def run():
        for _ in range(5):
            await asyncio.gather(*[context.prepare_async(SMALL, m=8)._wait() for _ in range(3)])

    asyncio.run(run())
    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(run())
    assert len(os.listdir("/proc/self/fd")) == before


def test_one_who_awaits_may_be_cancelled(need_compiler):
    go = threading.Event()

    async def run(context):
        pending = context.prepare_async(SMALL, m=8, progress=lambda *_: go.wait(60))
        tasks = [asyncio.ensure_future(pending._wait()) for _ in range(3)]
        await asyncio.sleep(0.005)
        tasks[0].cancel()
        await asyncio.wait([tasks[0]])
        assert tasks[0].cancelled() and not pending.done()
        go.set()
        assert [plan.bucket for plan in await asyncio.gather(*tasks[1:])] == [8, 8]
        assert (await pending).bucket == 8

    with sinter.Context(target="h200", cache_dir="") as context:
        asyncio.run(run(context))


def test_a_coroutine_that_is_closed_awaits_no_more(need_compiler):
    async def run(context, last):
        pending = context.prepare_async(COLD.format(8048), m=128)
        waits = [pending._wait() for _ in range(2)]
        for one in waits:
            one.send(None)
        waits[0].close()
        assert pending._awaiting == 1 and pending.fileno() >= 0
        with pytest.raises(last):
            waits[1].throw(last())
        with pytest.raises(sinter.Error, match="the Pending is closed"):
            pending.result()

    with sinter.Context(target="h200", cache_dir="") as context:
        for last in (asyncio.CancelledError, GeneratorExit):
            asyncio.run(run(context, last))


def test_a_loop_waits_for_the_descriptor(context, need_compiler):
    async def run():
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        pending = context.prepare_async(SMALL, m=8)
        loop.add_reader(pending.fileno(), told.set)
        await asyncio.wait_for(told.wait(), 60)
        loop.remove_reader(pending.fileno())
        return pending.result()

    assert asyncio.run(run()).bucket == 8


def test_deadline(need_compiler):
    with sinter.Context(target="h200", cache_dir="") as context:
        with pytest.raises(sinter.Error) as caught:
            context.prepare(COLD.format(8016), m=128, timeout=1e-6)
        assert caught.value.code == sinter.Status.DEADLINE_EXCEEDED
        with pytest.raises(TimeoutError):
            context.prepare_async(COLD.format(8024), m=128).result(timeout=0.0)
        for late in (
            lambda: context.prepare_many([COLD.format(8016)], [128], timeout=1e-6),
            lambda: context.slot(COLD.format(8016), m=128, timeout=1e-6).build.result(),
        ):
            with pytest.raises(sinter.Error) as refused:
                late()
            assert refused.value.code == sinter.Status.DEADLINE_EXCEEDED


def test_a_signal_ends_a_prepare(need_compiler):
    # Not SIGINT: NVRTC's front end has a handler of its own for that while it runs, which ends the process.
    code = f"""
import signal, sinter
def stop(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, stop)
context = sinter.Context(target="h200", cache_dir="")
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    for n in range(4096, 8192, 8):
        context.prepare("{COLD}".format(n), m=128)
except KeyboardInterrupt:
    print("stopped")
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    while True:
        context.prepare_many(["{COLD}".format(n) for n in range(4096, 4608, 8)], [128] * 64)
except KeyboardInterrupt:
    print("stopped")
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert found.stdout == "stopped\nstopped\n", found.stderr


def test_must_hit(need_compiler):
    with sinter.Context(target="h200", cache_dir="", must_hit=True) as context:
        with pytest.raises(sinter.Error) as caught:
            context.prepare(SMALL, m=8)
        assert caught.value.code == sinter.Status.CACHE_MISS


def test_no_build():
    with sinter.Context(target="h200", cache_dir="") as context:
        with pytest.raises(sinter.Error, match="is not in the cache") as caught:
            context.prepare(SMALL, m=8, no_build=True)
        assert caught.value.code == sinter.Status.NOT_FOUND


def test_log_and_progress_reach_python(tmp_path, need_compiler, capsys):
    lines, steps = [], []
    with sinter.Context(
        target="h200", cache_dir=tmp_path, log=lambda level, line: lines.append((level, line)), log_level="debug"
    ) as context:
        context.prepare(SMALL, m=8, progress=lambda stage, fraction: steps.append((stage, fraction)))
    assert all(isinstance(line, str) and level in list(sinter.LogLevel) for level, line in lines)
    assert steps and steps[-1][1] <= 1.0


def test_a_callback_that_raises_changes_nothing(tmp_path, need_compiler, monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: seen.append(what.exc_type))

    def fails(*_):
        raise ZeroDivisionError

    with sinter.Context(target="h200", cache_dir=tmp_path, log=fails, log_level="debug") as context:
        assert context.prepare(SMALL, m=8, progress=fails).bucket == 8
    assert ZeroDivisionError in seen


def test_a_callback_that_raises_is_heard_of(tmp_path, need_compiler):
    """Python's own hook is in place, which only accepts objects of the interpreter."""
    code = (
        "import sinter, sys, threading\n"
        "def on_log(*_): raise KeyError('from log')\n"
        "def on_progress(*_): raise KeyError('from progress')\n"
        "def on_done(): told.set(); raise KeyError('from done')\n"
        "told = threading.Event()\n"
        "with sinter.Context(target='h200', cache_dir=sys.argv[1], log=on_log, log_level='debug') as context:\n"
        "    pending = context.prepare_async(sys.argv[2], m=8, progress=on_progress)\n"
        "    pending.result()\n"
        "    pending.add_done_callback(on_done)\n"
        "    assert told.wait(60)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path), SMALL]
    said = subprocess.run(command, check=True, timeout=60, stderr=subprocess.PIPE, text=True).stderr
    for name in ("log", "progress", "done"):
        assert f"exception ignored in a callback of sinter: <function on_{name}" in said
        assert f"KeyError: 'from {name}'" in said
    assert "TypeError" not in said and ", in on_progress" in said


def test_no_launch_without_a_gpu(plan, buffers):
    *inputs, out = buffers
    for use in (lambda: plan(*inputs, out=out), lambda: plan.bind(*inputs, out=out)):
        with pytest.raises(sinter.Error) as caught:
            use()
        assert caught.value.code == sinter.Status.UNAVAILABLE and "h200" in caught.value.message
    with pytest.raises(sinter.Error) as caught:
        plan.context.tune(SMALL, m=8)
    assert caught.value.code == sinter.Status.UNAVAILABLE


def test_tuning_sets(tmp_path, cache_dir):
    made = sinter.TuningSet()
    assert len(made) == 0 and len(made.digest) == 64
    path = tmp_path / "tuned.txt"
    made.write(path)
    made.add_file(path)
    with sinter.Context(target="h200", cache_dir=cache_dir, tuning_set=path) as context:
        assert context.tuning_digest == made.digest
    with pytest.raises(sinter.Error, match="nowhere"):
        made.add_file(tmp_path / "nowhere")
    with pytest.raises(sinter.Error):
        made.write(tmp_path / "no" / "folder")


def test_a_closed_context_says_so(cache_dir):
    context = sinter.Context(target="h200", cache_dir=cache_dir)
    context.close()
    context.close()
    for use in (context.stats, context.describe, context.flush, lambda: context.prepare(SMALL, m=8)):
        with pytest.raises(sinter.Error, match="the Context is closed"):
            use()


def test_nothing_is_pickled(plan):
    for made in (plan, plan.context, plan.chain):
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(made)
        assert copy.copy(made) is made and copy.deepcopy(made) is made


BAD_OPTIONS = {
    "target": dict(target="h900"),
    "log_level": dict(target="h200", log_level="loud"),
    "cache_store": dict(target="h200", cache_store="drawer"),
    "tuning_set": dict(target="h200", tuning_set="/nowhere"),
    "nul": dict(target="h200", cache_dir="a\0b"),
    "remote": dict(target="h200", remote="ftp://host"),
    "device": dict(device=-1),
    "device and target": dict(device=0, target="h200"),
    "no driver": dict(device=0, driver_path="/nowhere/libcuda.so"),
    "cache_max_bytes": dict(target="h200", cache_max_bytes=-1),
    "deny_toolchains": dict(target="h200", deny_toolchains="x"),
    "surrogate": dict(target="h200", cache_dir="\ud800"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_options_are_errors(name):
    with pytest.raises(sinter.Error) as caught:
        sinter.Context(**BAD_OPTIONS[name])
    assert caught.value.message


BAD_CALLS = {
    "m missing": lambda c: c.prepare(SMALL),
    "m negative": lambda c: c.prepare(SMALL, m=-1),
    "m huge": lambda c: c.prepare(SMALL, m=2**31),
    "chain": lambda c: c.prepare("nothing"),
    "no plan": lambda c: c.prepare("matmul m=8 n=64 k=64 dtype=f32"),
    "choice": lambda c: c.prepare(SMALL, m=8, choice="worst"),
    "timeout": lambda c: c.prepare(SMALL, m=8, timeout=-1),
    "timeout nan": lambda c: c.prepare(SMALL, m=8, timeout=float("nan")),
    "lengths": lambda c: c.prepare_many([SMALL], [1, 2]),
    "threads": lambda c: c.prepare_many([SMALL], [1], threads=-1),
    "deny": lambda c: c.deny_toolchains("zzz"),
    "top_k": lambda c: c.tune(SMALL, m=8, top_k=-5),
    "surrogate": lambda c: c.prepare("\ud800", m=8),
    "margin": lambda c: c.tune(SMALL, m=8, switch_margin=10**400),
}
WRONG_TYPES = {
    "chain": lambda c: c.prepare(7, m=1),
    "m": lambda c: c.prepare(SMALL, m=1.5),
    "m text": lambda c: c.prepare(SMALL, m="8"),
    "many": lambda c: c.prepare_many(SMALL, [1]),
    "timeout": lambda c: c.prepare(SMALL, m=8, timeout="1"),
    "progress": lambda c: c.prepare(SMALL, m=8, progress=1),
    "stream": lambda c: c.prepare(SMALL, m=8, stream="main"),
    "into": lambda c: c.tune(SMALL, m=8, into=[]),
    "deny": lambda c: c.deny_toolchains(13),
    "result": lambda c: c.prepare_async(SMALL, m=8).result(timeout="soon"),
    "log": lambda c: sinter.Context(target="h200", log=3),
    "packs": lambda c: sinter.Context(target="h200", packs="a:b"),
    "target": lambda c: sinter.Context(target=200),
    "device": lambda c: sinter.Context("cuda:0"),
    "device bool": lambda c: sinter.Context(True),
    "switch": lambda c: sinter.Context(target="h200", cache="no"),
    "folder": lambda c: sinter.Context(target="h200", cache_dir=3),
    "m bool": lambda c: c.prepare(SMALL, m=True),
    "chains": lambda c: c.prepare_many(None),
    "ms": lambda c: c.prepare_many([SMALL], 8),
    "margin": lambda c: c.tune(SMALL, m=8, switch_margin="2%"),
}
FLAGS = {
    **{name: lambda c, word, name=name: c.prepare(SMALL, m=8, **{name: word}) for name in ("batch_invariant", "must_hit", "no_build", "verify")},
    "manual": lambda c, word: c.slot(SMALL, m=8, manual=word),
    "keep": lambda c, word: c.tune(SMALL, m=8, keep=word),
    "batch_invariant of tune": lambda c, word: c.tune(SMALL, m=8, batch_invariant=word),
    "must_hit of many": lambda c, word: c.prepare_many([SMALL], [8], must_hit=word),
    "verify of a context": lambda c, word: sinter.Context(target="h200", verify=word),
    "slot_measure of a context": lambda c, word: sinter.Context(target="h200", slot_measure=word),
}


# The text that a message names; Python's own message would name nothing.
WORDS = {
    "switch": ["cache is 'no'"],
    "folder": ["cache_dir is 3"],
    "m bool": ["m is True"],
    "chains": ["chains is None"],
    "ms": ["ms is 8"],
    "device bool": ["device is True"],
    "margin": ["switch_margin is '2%', which is no number"],
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_arguments_are_errors(name, context):
    with pytest.raises(sinter.Error) as caught:
        BAD_CALLS[name](context)
    assert caught.value.message


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_wrong_types_are_type_errors(name, context):
    with pytest.raises(TypeError, match="|".join(WORDS.get(name, ("",)))):
        WRONG_TYPES[name](context)


@pytest.mark.parametrize("word", ["0", "off", 0, 1])
@pytest.mark.parametrize("name", FLAGS)
def test_flags_are_true_or_false(name, word, context):
    with pytest.raises(TypeError, match=f"{name.split()[0]} is {word!r}, neither True nor False"):
        FLAGS[name](context, word)


def test_bad_arguments_of_a_plan_are_errors(plan):
    for kernel in (-1, 99, 2**40):
        with pytest.raises(sinter.Error):
            plan.source(kernel)
    with pytest.raises(TypeError):
        plan.source("first")


def test_threads_share_a_context(context, plan):
    found, failures = [], []

    def work(i):
        try:
            for j in range(20):
                chain = sinter.Chain.of(S8)
                found.append(context.prepare(chain, m=128).digest)
                context.stats(), plan.summary(), str(chain)
                b = sinter.Builder()
                b.finish(sinter.silu(b.input("bf16", (sinter.M, 8 * (i + 1)))).cast("bf16"))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and set(found) == {plan.digest} and len(found) == 160


def test_waiting_lets_other_threads_run(need_compiler):
    ran = []
    with sinter.Context(target="h200", cache_dir="") as context:
        thread = threading.Thread(target=lambda: ran.append(context.prepare(COLD.format(8032), m=8)))
        thread.start()
        turns = 0
        while thread.is_alive():
            turns += 1
            time.sleep(0.001)
        thread.join()
    assert ran and turns > 20



def test_closing_twice_at_once_releases_once(cache_dir):
    for _ in range(50):
        context = sinter.Context(target="h200", cache_dir="", log=lambda *_: None)
        threads = [threading.Thread(target=context.close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def test_a_search_tells_what_a_prepare_chooses_and_builds_nothing(cache_dir):
    line = "gated_ffn m=M n=512 k=256 l=256 act=silu dtype=bf16"
    with sinter.Context(target="h200", cache_dir="", nvrtc_path="/nowhere/libnvrtc.so", log_level="off") as context:
        found = context.search(line, m=100)
        assert (found.bucket, found.measured) == (112, False) and found.choice in ("fused", "unfused")
        assert 0 < found.predicted_us <= found.unfused_us and found.kernel_count > 0
        assert context.search(line, m=112) == found and context.search(line, m=200).bucket == 200
        stats = context.stats()
        assert (stats.searched, stats.kernels_compiled, stats.nvrtc_loaded, stats.prepares) == (2, 0, 0, 0)
        unfused = context.search(line, m=100, choice="unfused")
        assert unfused.choice == "unfused" and unfused.predicted_us == found.unfused_us and context.stats().searched == 2


def test_a_prepare_does_not_search_again(need_compiler):
    with sinter.Context(target="h200", cache_dir="") as context:
        found = context.search(SMALL, m=8)
        plan = context.prepare(SMALL, m=8)
        assert context.stats().searched == 1
        told = (plan.bucket, plan.kernel_count, plan.workspace_size, plan.name)
        assert told == (found.bucket, found.kernel_count, found.workspace_size, found.name)
        assert plan.predicted_us == pytest.approx(found.predicted_us)
        assert context.search(SMALL, m=5) == found and context.stats().searched == 1


def test_a_search_is_refused_as_a_prepare_is(cache_dir):
    with sinter.Context(target="h200", cache_dir="") as context:
        for more, code in (({"must_hit": True}, sinter.Status.CACHE_MISS), ({"no_build": True}, sinter.Status.NOT_FOUND)):
            with pytest.raises(sinter.Error) as raised:
                context.search(SMALL, m=8, **more)
            assert raised.value.code == code
        with pytest.raises(sinter.Error) as raised:
            context.search(SMALL, m=-1)
        assert raised.value.field == "m" and raised.value.value == "-1"
        with pytest.raises(sinter.Error) as raised:
            context.search(COLD.format(4096), m=8, timeout=1e-6)
        assert raised.value.code == sinter.Status.DEADLINE_EXCEEDED
        stages = []
        context.search(SMALL, m=8, progress=lambda stage, fraction: stages.append(fraction))
        assert stages == sorted(stages) and stages[-1] == 1 and context.stats().searched >= 1


def test_an_exception_of_a_signal_ends_a_search(cache_dir):
    with sinter.Context(target="h200", cache_dir="") as context:

        def interrupt(stage, fraction):
            _thread.interrupt_main()

        with pytest.raises(KeyboardInterrupt):
            context.search(SMALL, m=8, progress=interrupt)
            time.sleep(1)  # where the search was faster
