"""Times interleaved contestants: CUDA graphs that are replayed one after another, or calls back to back without a graph."""

import contextlib
import gc
import signal
import statistics
import time

import source_state

ROUNDS = 9


def capture(torch, stream, calls):
    """A CUDA graph of `calls`, functions without arguments, and their results, whose memory stays theirs. The caller keeps the calls as
    long as the graph: what they own, such as a workspace, is used by it."""
    torch.cuda.synchronize()  # what the calls read may have been made on another stream
    with torch.cuda.stream(stream):
        for call in calls[:3] * 2:
            call()
        torch.cuda.synchronize()
    gc.collect()  # a graph that is freed while another is captured ends the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        kept = [call() for call in calls]
    torch.cuda.synchronize()
    return graph, kept


class _Late(BaseException):
    """No Exception: torch.compile catches those of its candidates."""


@contextlib.contextmanager
def within(seconds):
    """Ends the body with a TimeoutError once `seconds` have passed; 0: never. Main thread only."""

    def stop(_signal, _frame):
        raise _Late

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except _Late:
        raise TimeoutError(f"not done within {seconds:g} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# Options of torch.compile, by contestant: all that max-autotune tries; the same without its last search, coordinate descent, and with
# convolutions only by cuDNN.
COMPILE_OPTIONS = {
    "compile": {},
    "autotune": {"max_autotune": True, "coordinate_descent_tuning": True},
    "autotune_cudnn": {"max_autotune": True, "max_autotune_conv_backends": "ATEN"},
}


def compiled(torch, function, name):
    """torch.compile of `function` for one size, with the options of a contestant."""
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False, options=COMPILE_OPTIONS[name])


def _figures(times):
    """Microseconds of one call."""
    return {"us": statistics.median(times), "least_us": min(times), "most_us": max(times)}


def replayed(torch, graphs, replays=1, rounds=ROUNDS):
    """Figures of {name: (graph, calls in it)}: each round replays every graph, beginning with another one each time."""
    names, times = list(graphs), {name: [] for name in graphs}
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for turn in range(-1, rounds):  # the first round warms up
        for i in range(len(names)):
            name = names[(turn + i) % len(names)]
            graph, calls = graphs[name]
            begin.record()
            for _ in range(replays):
                graph.replay()
            end.record()
            end.synchronize()
            if turn >= 0:
                times[name].append(begin.elapsed_time(end) * 1000 / (calls * replays))
    return {name: _figures(values) for name, values in times.items()}


def in_turns(torch, contestants, least_calls=16):
    """Microseconds a call of each of {name: calls}, with interleaved graphs that repeat the calls until there are `least_calls`. A contestant
    that raises a RuntimeError, as a backend that does not take the case, is left out, and reported."""
    stream, graphs, kept = torch.cuda.Stream(), {}, []
    for name, calls in contestants.items():
        order = calls * -(-least_calls // len(calls))
        try:
            graph, results = capture(torch, stream, order)
        except RuntimeError as why:
            print("  without", name, str(why).splitlines()[0][:80], flush=True)
            torch.cuda.synchronize()
            continue
        graphs[name] = (graph, len(order))
        kept.append(results)
    return {name: round(figure["us"], 3) for name, figure in replayed(torch, graphs).items()}


def called(torch, stream, contestants, least_calls=200, rounds=5):
    """Figures of {name: calls} by the wall clock, host time included, interleaved; a round has `least_calls` calls or more."""
    times = {name: [] for name in contestants}
    with torch.cuda.stream(stream):
        for turn in range(-1, rounds):
            for name, calls in contestants.items():
                order = calls * -(-least_calls // len(calls))
                torch.cuda.synchronize()
                begin = time.perf_counter()
                for call in order:
                    call()
                torch.cuda.synchronize()
                if turn >= 0:
                    times[name].append((time.perf_counter() - begin) / len(order) * 1e6)
    return {name: _figures(values) for name, values in times.items()}


def machine(torch):
    """What a results file says of where, and of which library, it was made."""
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(), **source_state.of_library(),
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
