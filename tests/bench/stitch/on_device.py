"""The measurements on the GPU of one graph: PyTorch, XLA and Sinter on the same tensors, with the same check.

Only peers.py's worker process imports this. Every function takes a Prepared, which holds the graph's tensors.
"""

import collections
import ctypes
import math
import statistics
import time

import numpy
import torch

import sinter_abi
from dag import SIZES
from emit_torch import torch_function
from interpret import JaxFramework, interpret
from profiled import profile

ROTATION_BYTES = 240e6
MOST_SETS = 16384
REPLAYS = 15
GRAPHS = 3
HOST_REPEATS = 15
BOUNDS = {"bf16": (5e-3, 0.05), "f16": (1e-3, 0.008), "f32": (1e-5, 1e-4)}
STEP = {"bf16": 2**-7, "f16": 2**-10, "f32": 2**-23}  # of neighbours, at most, relative to a value
NEIGHBOURS = 1e-3  # share of e4m3 elements that may be one step off
PEER_SLACK = 10  # on all bounds: others sum in orders and divide with approximations of their own
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "s32": torch.int32, "pred": torch.bool}
if hasattr(torch, "float8_e4m3fn"):
    DTYPES["e4m3"] = torch.float8_e4m3fn


# ---------------------------------------------------------------- tensors and their check


def draw(generator, info, rule, sizes, device):
    """As drawing.py, on the device."""
    dtype, dims = info["dtype"], info["dims"]
    if rule is None:
        rule = {"f32": ("uniform", 0.25, 1.0), "s32": ("below", 16), "pred": ("below", 2)}.get(dtype, ("uniform", -1.0, 1.0))
    if rule[0] == "uniform":
        values = torch.rand(dims, generator=generator, device=device) * (rule[2] - rule[1]) + rule[1]
    elif rule[0] == "choice":
        table = torch.tensor(rule[1], device=device)
        values = table[torch.randint(len(rule[1]), tuple(dims), generator=generator, device=device)]
    else:
        values = torch.randint(sizes.get(rule[1], rule[1]), tuple(dims), generator=generator, device=device)
    return values.to(DTYPES[dtype])


def coarsest(graph, value):
    """The dtype whose bounds a value is held to: an f32 that comes from values rounded to 16 bits is not closer than they are."""
    ops = {op["id"]: op for op in graph["ops"]}
    found, seen, stack = set(), set(), [value]
    while stack:
        op = ops.get(stack.pop())
        if op is None or op["id"] in seen:
            continue
        seen.add(op["id"])
        found.add(op["dtype"])
        stack += op.get("in", [])
    return next((dtype for dtype in ("bf16", "f16") if dtype in found), "f32")


def compare(out, want, dtype, slack=1, bounds=None):
    """(relative error, largest error over rms, within `slack` times the bounds) of an output against float64's. A value may be
    rounded to either neighbour: of the largest error, what lies beyond a step."""
    if out.shape != want.shape:
        raise RuntimeError(f"an output has shape {list(out.shape)}, must have {list(want.shape)}")
    if dtype in ("s32", "pred"):
        wrong = (out.to(torch.int64) != want.to(torch.int64)).sum().item()
        return float(wrong > 0), float(wrong > 0), wrong == 0
    out, reference = out.float().double(), want.double()
    difference = (out - reference).abs()
    norm, rms = reference.norm().item(), reference.square().mean().sqrt().item()
    beyond = (difference - STEP.get(dtype, 0) * reference.abs()).clamp(min=0)
    relative, largest = difference.norm().item() / max(norm, 1e-300), beyond.max().item() / max(rms, 1e-300)
    if not math.isfinite(relative) or not math.isfinite(largest):
        return relative, largest, False
    if dtype == "e4m3":
        steps = (e4m3_steps(out) - e4m3_steps(reference)).abs()
        return relative, largest, steps.max().item() <= 1 and (steps > 0).double().mean().item() <= slack * NEIGHBOURS
    bounds = bounds or BOUNDS[dtype]
    return relative, largest, relative <= slack * bounds[0] and largest <= slack * bounds[1]


def e4m3_steps(values):
    """Positions among the codes of e4m3, in steps from zero."""
    magnitude = values.abs()
    exponent = torch.where(magnitude > 0, torch.frexp(magnitude)[1], -5).clamp(min=-5)
    code = torch.round(torch.ldexp(magnitude, 4 - exponent)) + (exponent + 5) * 8
    return torch.where(values < 0, -code, code)


class Prepared:
    """A case's tensors: sets of inputs that rotate over more than 240 MB, and the reference's outputs."""

    def __init__(self, case, device="cuda", seed=1):
        if any("strides" in i for i in case.graph["inputs"]):
            raise RuntimeError("graphs with strided inputs are not measured here")
        self.case, self.device = case, device
        generator = torch.Generator(device=device).manual_seed(seed)
        self.inputs = [draw(generator, i, case.draws.get(i["name"]), case.sizes, device) for i in case.graph["inputs"]]
        reference = torch_function(torch, case.graph, device, "double")
        self.wanted = [out.clone() for out in reference(*self.inputs)]
        self.dtypes = [v["dtype"] for v in case.outputs()]
        self.bounds = [BOUNDS[coarsest(case.graph, o["value"])] for o in case.graph["outputs"]]
        self.count = min(MOST_SETS, max(2, math.ceil(ROTATION_BYTES / case.bytes())))
        self.calls = max(20 if case.limit_us() > 200 else 64, self.count)
        self._sets = None

    def sets(self):
        if self._sets is None:
            self._sets = [self.inputs] + [[x.clone() for x in self.inputs] for _ in range(self.count - 1)]
        return self._sets

    def profiled_calls(self):
        """So many that a profile keeps all their kernels."""
        return min(self.calls, max(20, 20000 // max(1, len(self.case.graph["ops"]))))

    def outputs(self):
        """New output tensors, full of bytes 0xff: not a number in any float."""
        made = []
        for value in self.case.outputs():
            size = math.prod(value["dims"]) * SIZES[value["dtype"]]
            flat = torch.full((max(size, 1),), 255, dtype=torch.uint8, device=self.device)
            made.append(flat[:size].view(DTYPES[value["dtype"]]).reshape(value["dims"]))
        return made

    def check(self, outputs, slack=1):
        """Raises when one is wrong; gives the worst errors."""
        relative = largest = 0.0
        for i, (out, want, dtype, bounds) in enumerate(zip(outputs, self.wanted, self.dtypes, self.bounds)):
            rel, top, right = compare(out, want, dtype, slack, max(bounds, BOUNDS.get(dtype, bounds)))
            if not right:
                raise RuntimeError(f"output {i} ({dtype}) is wrong: relative {rel:.3g}, largest {top:.3g} rms")
            if dtype != "e4m3":
                relative, largest = max(relative, rel), max(largest, top)
        return {"rel_error": relative, "max_error": largest}


# ---------------------------------------------------------------- CUDA graphs


def graph_nodes(raw):
    """(kernels, copies and fills) of a captured graph."""
    driver = ctypes.CDLL("libcuda.so.1")
    graph, count = ctypes.c_void_p(raw), ctypes.c_size_t()
    if driver.cuGraphGetNodes(graph, None, ctypes.byref(count)) != 0:
        raise RuntimeError("cuGraphGetNodes failed")
    nodes = (ctypes.c_void_p * count.value)()
    driver.cuGraphGetNodes(graph, nodes, ctypes.byref(count))
    kinds = collections.Counter()
    for node in nodes:
        kind = ctypes.c_int()
        driver.cuGraphNodeGetType(ctypes.c_void_p(node), ctypes.byref(kind))
        kinds[kind.value] += 1
    return kinds[0], kinds[1] + kinds[2]  # CU_GRAPH_NODE_TYPE_KERNEL, _MEMCPY, _MEMSET


def captured(stream, call, indices, rotation, keep=False):
    """A CUDA graph of call(i) for the indices, and the last `rotation` results, held so that outputs rotate too."""
    graph = torch.cuda.CUDAGraph(keep_graph=True) if keep else torch.cuda.CUDAGraph()
    held = collections.deque(maxlen=rotation)
    with torch.cuda.graph(graph, stream=stream):
        for i in indices:
            held.append(call(i))
    return graph, held


def count_kernels(stream, call):
    """(kernels, copies) of one call, or (None, None) where this PyTorch cannot say."""
    try:
        graph, _ = captured(stream, call, [0], 1, keep=True)
        return graph_nodes(graph.raw_cuda_graph())
    except (TypeError, AttributeError, OSError):
        return None, None


def replay_us(graph, calls, stream):
    """Median microseconds a call, replayed on the stream that it was captured on."""
    times = []
    with torch.cuda.stream(stream):
        graph.replay()
        torch.cuda.synchronize()
        for _ in range(REPLAYS):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / calls)
    return statistics.median(times)


def graph_us(stream, call, calls, rotation):
    """(the fastest graph's microseconds a call, results of the last calls): where the driver puts a graph's nodes moves each
    launch by 0.35 us, so several graphs are made, each while the others are there."""
    graphs = [captured(stream, call, range(calls), rotation) for _ in range(GRAPHS)]
    return min(replay_us(graph, calls, stream) for graph, _ in graphs), graphs[-1][1]


def host_us(call, kernels):
    """Microseconds of processor time that enqueuing one call takes: few enough that no queue fills."""
    calls = max(1, min(200, 400 // max(1, kernels or 1)))
    times = []
    for _ in range(HOST_REPEATS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for i in range(calls):
            call(i)
        times.append((time.perf_counter() - begin) * 1e6 / calls)
    torch.cuda.synchronize()
    return statistics.median(times)


# ---------------------------------------------------------------- PyTorch


def torch_call(prepared, mode):
    """(call of a set's index, the results of the first call): torch.compile in one of its modes."""
    torch._dynamo.reset()
    run = torch_function(torch, prepared.case.graph, prepared.device)
    options = {} if mode == "default" else {"mode": mode}
    compiled = torch.compile(run, dynamic=False, fullgraph=True, **options)
    outputs = compiled(*prepared.inputs)
    torch.cuda.synchronize()
    sets = prepared.sets()
    return lambda i: compiled(*sets[i % len(sets)]), outputs


def measure_torch(prepared, mode):
    begin = time.perf_counter()
    call, outputs = torch_call(prepared, mode)
    result = {"compile_s": time.perf_counter() - begin, **prepared.check(outputs, PEER_SLACK)}
    del outputs
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for i in range(3):
            call(i)
    torch.cuda.synchronize()
    result["us"], held = graph_us(stream, call, prepared.calls, prepared.count)
    prepared.check(held[-1], PEER_SLACK)
    result["kernels"], result["copies"] = count_kernels(stream, call)
    result["host_us"] = host_us(call, result["kernels"])
    return result


# ---------------------------------------------------------------- XLA


def to_jax(jax, tensor):
    if tensor.dtype == torch.bool:
        return jax.dlpack.from_dlpack(tensor.view(torch.uint8)).astype(jax.numpy.bool_)
    return jax.dlpack.from_dlpack(tensor)


def from_jax(jax, array):
    """A tensor of the same values; widened to f32 where the exchange format lacks the dtype."""
    if array.dtype in (jax.numpy.float8_e4m3fn, jax.numpy.bool_):
        array = array.astype(jax.numpy.float32)
    return torch.from_dlpack(array)


def xla_call(prepared):
    """(call of a set's index, the results of the first call, held): results rotate in `held`."""
    import jax
    graph, framework = prepared.case.graph, JaxFramework()
    jitted = jax.jit(lambda *inputs: tuple(interpret(graph, framework, inputs)))
    sets = [[to_jax(jax, tensor) for tensor in one] for one in prepared.sets()]
    compiled = jitted.lower(*sets[0]).compile()
    held = collections.deque(maxlen=len(sets))
    outputs = [from_jax(jax, out) for out in compiled(*sets[0])]
    return lambda i: held.append(compiled(*sets[i % len(sets)])), outputs, held


def measure_xla(prepared):
    import jax
    begin = time.perf_counter()
    call, outputs, held = xla_call(prepared)
    result = {"compile_s": time.perf_counter() - begin, **prepared.check(outputs, PEER_SLACK)}
    wait = lambda: jax.block_until_ready(list(held))

    def calls(n):
        for i in range(n):
            call(i)

    def wall():
        wait()
        start = time.perf_counter()
        calls(prepared.calls)
        wait()
        return (time.perf_counter() - start) * 1e6 / prepared.calls

    calls(prepared.count)
    result["wall_us"] = statistics.median(wall() for _ in range(5))
    result.update(profile(call, wait, prepared.profiled_calls()))
    result["host_us"] = host_us(call, result["kernels"])
    wait()
    return result


# ---------------------------------------------------------------- Sinter


class Sinter:
    """One context for all graphs."""

    def __init__(self, library):
        self.library = library
        self.context = library.made("sinter_context_create", None)

    def chain(self, case):
        return self.library.chain_from_line(case.line)[0] if case.line else self.library.chain_from_json(case.text)

    def call(self, prepared, choice, stream):
        """(call of a set's index, the first set's outputs, plan): on `stream`, into outputs that rotate."""
        case = prepared.case
        plan = sinter_abi.Plan(self.library, self.context, self.chain(case), case.m, choice)
        workspace = torch.full((max(plan.workspace_bytes, 256),), 255, dtype=torch.uint8, device=prepared.device)
        address = workspace.data_ptr() if plan.workspace_bytes else 0
        torch.cuda.synchronize()
        plan.init_workspace(address, stream.cuda_stream)
        sets = [(one, prepared.outputs()) for one in prepared.sets()]
        launchers = []
        for inputs, outputs in sets:
            pointers = [tensor.data_ptr() for tensor in inputs + outputs]
            launchers.append(plan.launcher(plan.bind(pointers, address)))

        def call(i):
            launchers[i % len(launchers)](stream.cuda_stream)
            return sets[i % len(sets)][1]

        call.workspace = workspace
        torch.cuda.synchronize()
        call(0)
        torch.cuda.synchronize()
        return call, sets[0][1], plan

    def measure(self, prepared, choice):
        stream, begin = torch.cuda.Stream(), time.perf_counter()
        call, outputs, plan = self.call(prepared, choice, stream)
        result = {"compile_s": time.perf_counter() - begin, "predicted_us": plan.predicted_us, "plan": plan.name,
                  **prepared.check(outputs)}
        result["us"], held = graph_us(stream, call, prepared.calls, 1)
        prepared.check(held[-1])
        result["kernels"], result["copies"] = count_kernels(stream, call)
        result["kernels"] = result["kernels"] or plan.kernels
        result["host_us"] = host_us(call, result["kernels"])
        return result

    def measure_kernels(self, prepared):
        """The chosen plan as XLA is measured: the sum of its kernels' own time."""
        call, outputs, plan = self.call(prepared, "best", torch.cuda.Stream())
        result = {"plan": plan.name, **prepared.check(outputs)}
        result.update(profile(call, torch.cuda.synchronize, prepared.profiled_calls()))
        return result


def once(prepared, call, stream=None):
    """One cold call between the profiler's start and stop."""
    with torch.cuda.stream(stream or torch.cuda.current_stream()):
        for i in range(prepared.count):
            call(i)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        call(prepared.count)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()


def machine():
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
            "numpy": numpy.__version__, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
