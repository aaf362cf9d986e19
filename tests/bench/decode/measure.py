"""Graphs of steps: captured, counted, checked, interleaved and timed; and the board's energy."""

import collections
import ctypes
import math
import statistics
import time

import torch

KERNEL_NODE = 0


class WrongResult(Exception):
    pass


class Graph:
    """`step` once, in a CUDA graph on `stream`.

    Attributes:
        result: what `step` returned; replays overwrite it.
        kernels: kernel nodes; None where this PyTorch or driver cannot say.
    """

    def __init__(self, step, stream):
        with torch.cuda.stream(stream):
            step()  # allocates, compiles
            stream.synchronize()
            self.graph = torch.cuda.CUDAGraph(keep_graph=True)
            with torch.cuda.graph(self.graph, stream=stream):
                self.result = step()
            self.kernels = count_kernels(self.graph.raw_cuda_graph())
            self.graph.instantiate()

    def replay(self):
        self.graph.replay()


def count_kernels(raw):
    """Kernel nodes of a graph that is not instantiated yet."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    graph, count = ctypes.c_void_p(raw), ctypes.c_size_t()
    if driver.cuGraphGetNodes(graph, None, ctypes.byref(count)) != 0:
        return None
    nodes = (ctypes.c_void_p * count.value)()
    driver.cuGraphGetNodes(graph, nodes, ctypes.byref(count))
    kinds = collections.Counter()
    for node in nodes:
        kind = ctypes.c_int()
        driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind))
        kinds[kind.value] += 1
    return kinds[KERNEL_NODE]


def relative_error(found, wanted):
    """The error over all logits together. A NaN or infinity makes it infinite."""
    error = ((found.float() - wanted).norm() / wanted.norm()).item()
    return error if math.isfinite(error) else math.inf


def check(error, own, slack):
    """Raises WrongResult unless a contestant's error is at most `slack` times that of PyTorch's own operators.

    Returns:
        The error.
    """
    if not error <= own * slack:
        raise WrongResult(f"its logits differ by {error:.3g} from float32, PyTorch's by {own:.3g}")
    return error


def in_turns(graphs, stream, rounds, seconds, state):
    """{name: median microseconds of a replay}. Each round replays each graph for about `seconds`, one graph after another."""
    times = {name: [] for name in graphs}
    repeats = {}
    with torch.cuda.stream(stream):
        for name, graph in graphs.items():
            state.reset()
            graph.replay()
            repeats[name] = max(2, math.ceil(seconds * 1e6 / _replay_us(graph, 2)))
        for _ in range(rounds):
            for name, graph in graphs.items():
                times[name].append(_replay_us(graph, repeats[name]))
    return {name: statistics.median(values) for name, values in times.items()}


def _replay_us(graph, repeats):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeats):
        graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / repeats


class Meter:
    """NVML's counter of a GPU's energy, and its clock. Without NVML both are None."""

    def __init__(self, pci_bus_id):
        self._device = ctypes.c_void_p()
        try:
            self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
            found = self._nvml.nvmlInit_v2() or self._nvml.nvmlDeviceGetHandleByPciBusId_v2(
                pci_bus_id.encode(), ctypes.byref(self._device)
            )
        except (OSError, AttributeError):
            found = 1
        if found != 0:
            self._nvml = None

    def joules(self):
        millijoules = ctypes.c_ulonglong()
        if self._nvml is None or self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._device, ctypes.byref(millijoules)):
            return None
        return millijoules.value / 1e3

    def clock_mhz(self):
        clock = ctypes.c_uint()
        if self._nvml is None or self._nvml.nvmlDeviceGetClockInfo(self._device, 1, ctypes.byref(clock)):
            return None
        return clock.value


def energy(graph, stream, us, seconds, meter):
    """Joules of a replay, idle power included; None where the meter says nothing."""
    repeats = max(1, math.ceil(seconds * 1e6 / us))
    before = meter.joules()
    if before is None:
        return None
    with torch.cuda.stream(stream):
        for _ in range(repeats):
            graph.replay()
        stream.synchronize()
    time.sleep(0.1)  # the counter moves ten times a second
    idle = meter.joules()
    return None if idle is None else (idle - before) / repeats


def pci_bus_id(device):
    """Address of a GPU, as NVML knows it; "" where the driver does not say."""
    text = ctypes.create_string_buffer(16)
    try:
        found = ctypes.CDLL("libcuda.so.1").cuDeviceGetPCIBusId(text, 16, device)
    except (OSError, AttributeError):
        found = 1
    return "" if found else text.value.decode()


def timeline(graph, stream, count=28):
    """[name, start us, duration us] of `count` kernels from the middle of a replay, by PyTorch's profiler; none where it sees none."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    with torch.cuda.stream(stream), profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(3):
            graph.replay()
        stream.synchronize()
    ran = sorted((one.time_range.start, one.time_range.end, one.name) for one in profiler.events()
                 if one.device_type == DeviceType.CUDA)
    middle = ran[len(ran) // 2 :][:count]
    return [[name[:80], begin - middle[0][0], end - begin] for begin, end, name in middle]
