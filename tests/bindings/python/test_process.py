"""Forks and leaks."""

import gc
import json
import os
import pathlib
import shutil
import subprocess
import sys
import weakref

import pytest

import sinter
from sinter import _callbacks

from conftest import S8, SMALL


def in_child(work):
    """Exit status of a forked child that runs `work`; it is killed after 60 s."""
    import signal

    child = os.fork()
    if child == 0:
        signal.alarm(60)
        status = 1
        try:
            status = 0 if work() else 2
        except BaseException as failure:
            os.write(2, f"{failure!r}\n".encode())
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_child_uses_a_context_for_a_target(context, plan):
    digest = plan.digest
    assert in_child(lambda: context.prepare(S8, m=128).digest == digest and plan.svg()) == 0
    assert in_child(lambda: sinter.Context(target="h200", cache_dir="").stats().prepares == 0) == 0


def test_a_child_is_refused_the_parents_gpu(gpu, launchable, buffers):
    *inputs, out = buffers

    def refused():
        for use in (gpu.stats, launchable.summary, lambda: launchable(*inputs, out=out)):
            try:
                use()
            except sinter.Error as error:
                if error.code != sinter.Status.FAILED_PRECONDITION or "fork" not in error.message:
                    return False
            else:
                return False
        return True

    assert in_child(refused) == 0
    launchable(*inputs, out=out)


def test_reprs_of_a_child_say_what_is_wrong(gpu, launchable):
    assert in_child(lambda: "before a fork" in repr(launchable) and "before a fork" in repr(gpu)) == 0


def test_the_package_runs_as_the_command(tmp_path):
    package = tmp_path / "sinter"
    shutil.copytree(pathlib.Path(sinter.__file__).parent, package, ignore=shutil.ignore_patterns("torch", "__pycache__"))
    run = lambda *arguments: subprocess.run(
        [sys.executable, "-m", "sinter", *arguments],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        timeout=60,
        capture_output=True,
        text=True,
    )
    missing = run("kinds")
    assert missing.returncode == 1 and "not installed from a wheel" in missing.stderr
    (package / "bin").mkdir()
    program = package / "bin" / "sinter"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    assert run("kinds", "-v").stdout == "kinds -v\n"


def test_a_child_gives_up_the_parents_pending(context, need_compiler):
    pending = context.prepare_async(SMALL, m=8)
    pending.result()

    def child():
        assert pending.done()
        try:
            pending.result()
        except sinter.Error as error:
            return error.code == sinter.Status.FAILED_PRECONDITION
        return False

    assert in_child(child) == 0


def test_nothing_keeps_objects_alive(cache_dir, need_compiler):
    context = sinter.Context(target="h200", cache_dir=cache_dir, log=lambda *_: None)
    plan = context.prepare(SMALL, m=8, progress=lambda *_: None)
    pending = context.prepare_async(SMALL, m=8, progress=lambda *_: None)
    pending.result()
    alive = [weakref.ref(item) for item in (context, plan, plan.chain, pending)]
    gc.disable()
    try:
        del context, plan, pending
        assert [item() for item in alive] == [None] * 4
    finally:
        gc.enable()


def test_failures_keep_nothing_alive(need_compiler):
    context = sinter.Context(target="h200", cache_dir="", must_hit=True, log_level="off")
    gc.disable()
    try:
        for fails in (
            lambda: context.prepare(SMALL, m=8),
            lambda: context.prepare_many([SMALL], [8]),
            lambda: context.slot(SMALL, m=8).build.result(),
        ):
            try:
                fails()
            except sinter.Error as error:
                assert error.code == sinter.Status.CACHE_MISS
        alive = weakref.ref(context)
        del context, fails
        assert alive() is None
    finally:
        gc.enable()


def test_callbacks_are_forgotten(cache_dir, need_compiler):
    before = _callbacks.count()
    for _ in range(3):
        with sinter.Context(target="h200", cache_dir=cache_dir, log=lambda *_: None) as context:
            context.prepare(SMALL, m=8, progress=lambda *_: None)
            context.prepare_many([SMALL], [8], progress=lambda *_: None)
            with pytest.raises(sinter.Error):
                context.prepare_async(SMALL, m=-1, progress=lambda *_: None)
    with pytest.raises(sinter.Error):
        sinter.Context(target="no such", log=lambda *_: None)
    assert _callbacks.count() == before


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grows(work, times):
    """Bytes that `times` calls add once the first ones have filled pools."""
    for _ in range(times):
        work()
    gc.collect()
    before = resident()
    for _ in range(times):
        work()
    gc.collect()
    return resident() - before


def test_memory_does_not_grow(context, plan):
    def work():
        chain = sinter.Chain.of(S8)
        chain.buffers(9), chain.to_json(), chain.digest, str(chain)
        b = sinter.Builder()
        b.finish((b.input("bf16", (sinter.M, 8)) * 2).cast("bf16"))
        context.prepare(chain, m=128).summary()
        for bad in (lambda: sinter.Chain.of("nothing"), lambda: context.prepare(chain, m=-1)):
            with pytest.raises(sinter.Error):
                bad()
        context.stats(), plan.explain()

    assert grows(work, 150) < 2 << 20


def test_launches_do_not_grow(gpu, launchable, buffers):
    *inputs, out = buffers

    def work():
        launchable(*inputs, out=out)
        launchable.bind(*inputs, out=out)(3)

    held = gpu._workspaces.bytes()
    # The fake driver records each call, some hundred bytes.
    assert grows(work, 200) < 3 << 20 and gpu._workspaces.bytes() == max(held, 1 << 20)


def test_records_are_written_when_the_process_ends(tmp_path, need_compiler):
    code = (
        "import sinter, sys; context = sinter.Context(target='h200', cache_dir=sys.argv[1]);"
        "plan = context.prepare(sys.argv[2], m=8, must_hit=len(sys.argv) > 3)"
    )
    for more in ([], ["must_hit"]):
        subprocess.run([sys.executable, "-c", code, str(tmp_path), SMALL, *more], check=True, timeout=60)


def ends(program, *arguments):
    """Runs a program on one processor, where threads overtake one another least."""
    head = "import os, sinter, sys, time; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    done = subprocess.run([sys.executable, "-c", head + program, *arguments], timeout=60, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr


def test_a_process_ends_right_behind_an_await(cache_dir, need_compiler):
    program = (
        "import asyncio\n"
        "async def main():\n"
        "    context = sinter.Context(target='h200', cache_dir=sys.argv[1])\n"
        "    assert (await context.prepare_async(sys.argv[2], m=8)).bucket == 8\n"
        "asyncio.run(main())"
    )
    for _ in range(20):
        ends(program, str(cache_dir), SMALL)


def test_a_process_ends_behind_the_callbacks_that_run(cache_dir, need_compiler):
    program = (
        "lines = []\n"
        "context = sinter.Context(target='h200', cache_dir=sys.argv[1])\n"
        "def slow(*_):\n"
        "    lines.append(0)\n"
        "    for _ in range(100): time.sleep(0.001)\n"  # asks for the interpreter each time
        "    print('ended')\n"
        "def done():\n"
        "    pending.close()\n"  # so that nothing of it is left to be waited for
        "    slow()\n"
        "pending = context.prepare_async(sys.argv[2], m=8, progress=lambda *_: time.sleep(0.05))\n"
        "pending.add_done_callback(done)\n"
        "while not lines: time.sleep(0.001)"
    )
    for _ in range(3):
        ends(program, str(cache_dir), SMALL)


def test_a_process_ends_while_daemons_are_called(cache_dir, need_compiler):
    program = (
        "import threading\n"
        "work = lambda *_: [i * i for i in range(2000)]\n"
        "context = sinter.Context(target='h200', cache_dir=sys.argv[1], log=work, log_level='debug')\n"
        "def prepare():\n"
        "    while True:\n"
        "        try: context.prepare_async(sys.argv[2], m=8, progress=work).add_done_callback(work)\n"
        "        except sinter.Error: pass\n"
        "for _ in range(2): threading.Thread(target=prepare, daemon=True).start()\n"
        "time.sleep(0.05)"
    )
    for _ in range(10):
        ends(program, str(cache_dir), SMALL)


def test_a_process_ends_while_threads_prepare(need_compiler):
    code = (
        "import sinter, sys, threading, time\n"
        "c = sinter.Context(target='h200', cache_dir='')\n"
        "def prepare(n):\n"
        "    try: c.prepare(sys.argv[1].format(n), 64)\n"
        "    except sinter.Error: pass\n"  # Python may abort where a thread prints while the interpreter ends
        "for n in (8200, 8208): threading.Thread(target=prepare, args=(n,), daemon=True).start()\n"
        "time.sleep(float(sys.argv[2]))"
    )
    chain = "gated_ffn m=M n={} k=1024 l=1024 act=silu dtype=bf16"
    for seconds in ("0", "0.01", "0.1", "0.4"):
        done = subprocess.run([sys.executable, "-c", code, chain, seconds], timeout=60, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0, (seconds, done.stderr)


def test_a_process_ends_with_everything_alive(cache_dir, need_compiler):
    code = (
        "import sinter, sys, threading; context = sinter.Context(target='h200', cache_dir='', log=print, log_level='debug');"
        "pending = context.prepare_async(sys.argv[1], m=128); chain = sinter.Chain.of(sys.argv[1]); b = sinter.Builder()"
    )
    subprocess.run([sys.executable, "-c", code, S8], check=True, timeout=60, stdout=subprocess.DEVNULL)


def test_a_trace_is_written_though_nothing_is_closed(tmp_path, need_compiler):
    program = "import sinter\nC = sinter.Context(target='h200', cache_dir='')\nP = C.prepare('rmsnorm rows=M cols=64', m=8)\n"
    path = tmp_path / "trace.json"
    environment = {**os.environ, "SINTER_TRACE": str(path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)
    assert any(event["name"] == "prepare" for event in json.loads(path.read_text())["traceEvents"])


SLOW = "gated_ffn m=M n=3072 k=1024 l=1024 act=silu"


def prepare_in_a_fork(_):
    """Prepares in a worker of a fork pool, with a new context."""
    try:
        sinter.Context(target="h200", cache_dir="", cache=False).prepare(SMALL, m=8)
    except sinter.Error as error:
        return error.code.name, error.message
    return "OK", ""


def test_a_fork_pool_beside_a_compile_is_told_to_spawn(need_compiler):
    import multiprocessing
    import threading

    stop = threading.Event()
    context = sinter.Context(target="h200", cache_dir="", cache=False)

    def compile_on():
        bucket = 0
        while not stop.is_set():
            bucket = bucket % 4096 + 16
            context.prepare(SLOW, m=bucket)

    busy = threading.Thread(target=compile_on)
    busy.start()
    try:
        while not context.stats().nvrtc_loaded:
            pass
        with multiprocessing.get_context("fork").Pool(2) as pool:
            answers = pool.map_async(prepare_in_a_fork, range(8)).get(timeout=60)
    finally:
        stop.set()
        busy.join()
    for code, message in answers:
        assert code == "OK" or (code == "UNAVAILABLE" and "spawn" in message), (code, message)
