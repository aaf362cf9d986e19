"""Buffers, streams, launches and bindings on a driver without a GPU."""

import ctypes
import gc
import os
import sys
import threading
import types
import weakref

import pytest

import sinter
from sinter import _abi, _binding, _buffers, _library, _plan

from conftest import Array, Broken, DLPack, S8, SMALL


def test_a_call_launches_every_kernel(gpu, launchable, buffers):
    *inputs, out = buffers
    before = gpu.stats().launches
    assert launchable(*inputs, out=out) is out
    assert launchable(*inputs, out=[out], pdl=True, stream=0) is out
    assert gpu.stats().launches == before + 2


def test_addresses_need_m(gpu, launchable):
    addresses = [(i + 1) << 24 for i in range(5)]
    before = gpu.stats().launches
    assert launchable(*addresses[:4], out=addresses[4], m=100) == addresses[4]
    assert gpu.stats().launches == before + 1
    with pytest.raises(sinter.Error, match="m is not given"):
        launchable(*addresses[:4], out=addresses[4])
    with pytest.raises(sinter.Error) as caught:
        launchable(*addresses[:4], out=addresses[4], m=129)
    assert caught.value.code == sinter.Status.OUT_OF_RANGE


def test_a_convolution_takes_more_images_than_a_pass(context, gpu):
    for on in (context, gpu):
        few, many = (on.prepare("conv b=M ic=64 h=56 w=56 oc=64 k=3", m=m) for m in (16, 48))
        assert (few.bucket, few.max_m, many.bucket, many.max_m) == (16, 16, 32, 2**31 - 1)
        with pytest.raises(sinter.Error, match="m is 17, .* at most 16 rows"):
            few(1 << 30, 1 << 34, out=1 << 35, m=17)
    with pytest.raises(sinter.Error) as caught:
        context.prepare("conv b=M ic=64 h=56 w=56 oc=64 k=3", m=48)(1 << 30, 1 << 34, out=1 << 35, m=48)
    assert caught.value.code == sinter.Status.UNAVAILABLE  # not OUT_OF_RANGE
    before = gpu.stats().launches
    images = Array((48, 56, 56, 64), 1 << 32)
    for binding in (many.bind(images, 1 << 34, out=1 << 35), many.bind(1 << 32, 1 << 34, out=1 << 35, m=1000)):
        assert binding() == 1 << 35
    assert many(images, 1 << 34, out=1 << 35) == 1 << 35 and gpu.stats().launches == before + 3


def test_no_rows_launch_nothing(gpu, launchable, buffers):
    out = Array((0, 1024), 1 << 28)
    before = gpu.stats().launches
    assert launchable(Array((0, 1024), 0), *buffers[1:4], out=out) is out
    assert gpu.stats().launches == before


def test_a_binding_launches_any_rows_it_holds(gpu, launchable, buffers):
    *inputs, out = buffers
    binding = launchable.bind(*inputs, out=out)
    before = gpu.stats().launches
    assert binding() is out and binding(3) is out and binding(m=7, pdl=True) is out
    assert gpu.stats().launches == before + 3 and binding.m == 7 and binding.outputs == (out,)
    for rows in (8, -1, 2**40):
        with pytest.raises(sinter.Error, match=str(rows)):
            binding(rows)
    with pytest.raises(TypeError):
        binding(1.5)


def test_a_binding_ends_with_its_context(gpu, cache_dir, buffers):
    """Its workspace was the context's, and is freed. One with a workspace of the caller's goes on."""
    *inputs, out = buffers
    with sinter.Context(0, driver_path=os.environ["FAKE_LIBCUDA"], cache_dir=cache_dir) as context:
        plan = context.prepare(S8, m=128)
        assert plan.workspace_size > 0
        binding = plan.bind(*inputs, out=out)
        own = plan.bind(*inputs, out=out, workspace=Array((plan.workspace_size,), 1 << 29, "|V1"))
        small = context.prepare(SMALL, m=8).bind(inputs[0].__class__((4, 64)), Array((64,), 1 << 25), out=Array((4, 64), 1 << 26))
        binding()
    for use in (binding, lambda: binding.add_to_graph(1), lambda: plan(*inputs, out=out), context.__enter__):
        with pytest.raises(sinter.Error, match="the Context is closed"):
            use()
    assert own() is out and small() is not None and plan.summary()


def test_objects_may_go_in_any_order(gpu, cache_dir, buffers):
    *inputs, out = buffers
    context = sinter.Context(0, driver_path=os.environ["FAKE_LIBCUDA"], cache_dir=cache_dir)
    plan = context.prepare(S8, m=128)
    binding = plan.bind(*inputs, out=out)
    del context
    gc.collect()
    assert binding() is out
    del plan
    gc.collect()
    assert binding() is out


def test_a_binding_keeps_plan_and_buffers(gpu, need_compiler):
    plan = gpu.prepare(SMALL, m=8)
    x, gamma, y = Array((4, 64), 1 << 24), Array((64,), 1 << 25), Array((4, 64), 1 << 26)
    alive = [weakref.ref(item) for item in (plan, x, gamma, y)]
    binding = plan.bind(x, gamma, out=y)
    del plan, x, gamma, y
    gc.collect()
    assert all(item() is not None for item in alive)
    binding()
    del binding
    gc.collect()
    assert [item() for item in alive] == [None] * 4


def test_a_launch_keeps_what_its_owner_may_free(gpu, launchable, buffers, monkeypatch):
    *inputs, out = buffers
    monkeypatch.setattr(gpu._driver, "take_if_reached", lambda event: False)
    alive = weakref.ref(inputs[0])
    launchable(*inputs, out=out)
    del inputs, buffers[:]
    gc.collect()
    assert alive() is not None and len(gpu._in_flight)
    monkeypatch.undo()
    gpu._in_flight.reap()
    gc.collect()
    assert alive() is None and len(gpu._in_flight) == 0


def test_a_launch_keeps_its_memory_when_its_context_goes(gpu, launchable, buffers, cache_dir, monkeypatch):
    context = sinter.Context(0, driver_path=os.environ["FAKE_LIBCUDA"], cache_dir=cache_dir)
    x, gamma, y = Array((4, 64), 1 << 24), Array((64,), 1 << 25), Array((4, 64), 1 << 26)
    alive, gone = weakref.ref(x), weakref.ref(context)
    monkeypatch.setattr(type(context._driver), "take_if_reached", lambda driver, event: False)
    context.prepare(SMALL, m=8)(x, gamma, out=y)
    del context, x, gamma, y
    gc.collect()
    assert alive() is not None and gone() is None
    monkeypatch.undo()
    *inputs, out = buffers
    launchable(*inputs, out=out)  # any launch looks after all
    gc.collect()
    assert alive() is None


def test_captured_launches_keep_their_buffers(gpu, launchable, buffers, monkeypatch):
    *inputs, out = buffers
    monkeypatch.setattr(gpu._driver, "is_capturing", lambda stream: True)
    before = len(gpu._in_flight)
    launchable(*inputs, out=out)
    gpu._in_flight.reap()
    assert len(gpu._in_flight) == before + 5
    del gpu._in_flight._captured[:]


def test_a_capture_stays_whole(gpu, launchable, buffers):
    """The fake driver breaks a capture as the real one does. The stream's workspace is made inside it."""
    driver, stream, graph = ctypes.CDLL(os.environ["FAKE_LIBCUDA"]), ctypes.c_void_p(), ctypes.c_void_p()
    *inputs, out = buffers
    with gpu._driver._current():
        assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
        assert driver.cuStreamBeginCapture_v2(stream, 0) == 0
    held = len(gpu._in_flight)
    launchable(*inputs, out=out, stream=stream.value)
    launchable.bind(*inputs, out=out, stream=stream.value)(stream=stream.value)
    assert gpu._driver.is_capturing(stream.value) and len(gpu._in_flight) == held + 5
    with gpu._driver._current():
        assert driver.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0 and graph.value
        assert driver.cuGraphDestroy(graph) == 0 and driver.cuStreamDestroy_v2(stream) == 0
    del gpu._in_flight._captured[:]


def test_nodes_of_a_graph(gpu, launchable, buffers):
    """A graph that is built by hand, from an empty capture."""
    driver, stream, graph, instance = ctypes.CDLL(os.environ["FAKE_LIBCUDA"]), *(ctypes.c_void_p() for _ in range(3))
    *inputs, out = buffers
    with gpu._driver._current():
        assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
        assert driver.cuStreamBeginCapture_v2(stream, 2) == 0
        assert driver.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0
    binding = launchable.bind(*inputs, out=out)
    none = binding.add_to_graph(graph.value, m=0)
    assert len(none.nodes) == 1
    added = binding.add_to_graph(graph.value, none.nodes, pdl=True)
    assert len(added.nodes) == launchable.kernel_count
    with gpu._driver._current():
        assert driver.cuGraphInstantiateWithFlags(ctypes.byref(instance), graph, ctypes.c_ulonglong(0)) == 0
    added.update(instance.value, binding, m=3)
    with pytest.raises(sinter.Error, match="build the graph again"):
        added.update(instance.value, binding, m=0)
    with pytest.raises(sinter.Error, match="graph is null"):
        binding.add_to_graph(0)
    with pytest.raises(sinter.Error, match="cuGraphAddNode"):
        binding.add_to_graph(graph.value, [99])
    with gpu._driver._current():
        assert driver.cuGraphExecDestroy(instance) == 0 and driver.cuGraphDestroy(graph) == 0
        assert driver.cuStreamDestroy_v2(stream) == 0


def test_a_producers_stream_is_waited_for(gpu, launchable, buffers, monkeypatch):
    waits = []
    monkeypatch.setattr(gpu._driver, "wait_for", lambda producer, consumer: waits.append((producer, consumer)))
    _, *rest, out = buffers
    launchable(Array((7, 1024), 1 << 24, stream=77), *rest, out=out, stream=5 * 0)
    launchable(Array((7, 1024), 1 << 24, stream=1), *rest, out=out)
    assert waits == [(77, 0)]


def test_workspaces_belong_to_streams(gpu, launchable):
    spaces = gpu._workspaces
    first = spaces.address(0, 1000)
    assert spaces.address(0, 999) == first and spaces.address(0, 0) == 0
    second = spaces.address(0xABC0, 1000)
    assert second != first and second % 256 == 0
    held = spaces.bytes()
    grown = spaces.address(0xABC0, 64 << 20)
    assert grown != second and spaces.bytes() == held + (64 << 20)
    spaces.reserve()
    spare = spaces.bytes()
    spaces.address(0xDEF0, 1000)
    assert spaces.bytes() == spare


def test_the_largest_workspace_wanted_is_remembered(gpu):
    """Whichever threads want one at a time."""
    from sinter._workspace import Workspaces

    spaces = Workspaces(gpu)
    other = threading.Thread(target=spaces.want, args=(5 << 20,))

    class Slow(int):
        def __gt__(self, wanted):
            other.start()
            other.join(0.1)
            return int(self) > wanted

    spaces.want(Slow(10))
    other.join(10)
    assert spaces._wanted == 5 << 20


def test_a_given_workspace_is_checked(launchable, buffers):
    *inputs, out = buffers
    size = launchable.workspace_size
    assert size > 0
    launchable(*inputs, out=out, workspace=Array((size,), 1 << 29, "|V1"))
    launchable(*inputs, out=out, workspace=Array((size,), 1 << 29, "|u1"))
    for typestr in ("|V1", "|u1"):
        with pytest.raises(sinter.Error, match=f"workspace has 16 bytes, the plan needs {size}"):
            launchable(*inputs, out=out, workspace=Array((16,), 1 << 29, typestr))
    with pytest.raises(TypeError):
        launchable(*inputs, out=out, workspace="here")


def test_a_workspaces_bytes_are_those_of_its_elements(launchable, buffers):
    *inputs, out = buffers
    size = launchable.workspace_size
    for typestr, itemsize in (("|i1", 1), ("<V2", 2), ("<f4", 4), ("<i8", 8)):
        launchable(*inputs, out=out, workspace=Array((size // itemsize,), 1 << 29, typestr))
        with pytest.raises(sinter.Error, match=f"workspace has {size - itemsize} bytes, the plan needs {size}"):
            launchable(*inputs, out=out, workspace=Array((size // itemsize - 1,), 1 << 29, typestr))


def test_strides_of_one_element_say_nothing(gpu, launchable, buffers):
    *inputs, out = buffers
    plan, before = gpu.prepare(SMALL, m=8), gpu.stats().launches
    gamma, y = Array((64,), 1 << 25), Array((1, 64), 1 << 26)
    plan(Array((1, 64), 1 << 24, strides=(6, 2)), gamma, out=y)
    plan(DLPack((1, 64), strides=(3, 1)), gamma, out=y)
    assert gpu.stats().launches == before + 2
    with pytest.raises(sinter.Error, match=r"input 0 .*has strides \(3, 1\), the chain asks for \(64, 1\)"):
        plan(DLPack((2, 64), strides=(3, 1)), gamma, out=Array((2, 64), 1 << 26))
    launchable(*inputs, out=out, workspace=Array((1, launchable.workspace_size), 1 << 29, "|V1", strides=(3, 1)))


def test_unsigned_bytes_are_a_workspace_and_no_operand():
    for array in (Array((64,), 1 << 29, "|u1"), DLPack((64,), code=1, bits=8)):
        seen = _buffers.describe(array, "workspace", untyped=True)
        assert seen.shape == (64,) and seen.dtype.itemsize == 1
        with pytest.raises(sinter.Error):
            _buffers.describe(array, "x")


@pytest.mark.parametrize("index", range(5))
def test_a_given_workspace_is_apart_from_all_buffers(gpu, launchable, buffers, index):
    *inputs, out = buffers
    size, before = launchable.workspace_size, gpu.stats().launches
    start = (index + 1) << 24
    end = start + launchable.chain.buffers(7)[index].bytes
    name = "output 0" if index == 4 else f"input {index}"
    for address in (start, end - 16, start - size + 16):
        for space in (Array((size,), address, "|u1"), address):
            for use in (launchable, launchable.bind):
                with pytest.raises(sinter.Error, match=f"INVALID_ARGUMENT: workspace overlaps {name}"):
                    use(*inputs, out=out, workspace=space)
    assert gpu.stats().launches == before
    launchable.bind(*inputs, out=out, workspace=Array((size,), -(-end // 256) * 256, "|u1"))


def test_a_given_workspace_is_kept(gpu, launchable, buffers, monkeypatch):
    """A binding keeps it as long as the binding lives, a launch until the launch has ended."""
    *inputs, out = buffers
    space = Array((launchable.workspace_size,), 1 << 29, "|V1")
    alive = weakref.ref(space)
    binding = launchable.bind(*inputs, out=out, workspace=space)
    del space
    gc.collect()
    assert alive() is not None and binding() is out
    del binding
    monkeypatch.setattr(gpu._driver, "take_if_reached", lambda event: False)
    space = Array((launchable.workspace_size,), 1 << 29, "|V1")
    alive = weakref.ref(space)
    launchable(*inputs, out=out, workspace=space)
    del space
    gc.collect()
    assert alive() is not None
    monkeypatch.undo()
    gpu._in_flight.reap()


def test_a_workspace_is_on_the_plans_device(gpu, launchable, buffers, monkeypatch):
    *inputs, out = buffers
    space = Array((launchable.workspace_size,), 1 << 29, "|V1")
    monkeypatch.setattr(gpu._driver, "device_of", lambda address: 3 if address == 1 << 29 else 0)
    for use in (launchable, launchable.bind):
        with pytest.raises(sinter.Error, match="workspace is on device 3, the plan runs on device 0"):
            use(*inputs, out=out, workspace=space)
    monkeypatch.undo()
    apart = Array((launchable.workspace_size,), 1 << 29, "|V1", strides=(2,))
    with pytest.raises(sinter.Error, match="workspace has strides"):
        launchable(*inputs, out=out, workspace=apart)


BAD = {
    r"input 0 \(a\) has dtype f16, the chain asks for bf16": lambda b: b.__setitem__(0, Array((7, 1024), 1 << 24, "<f2")),
    r"input 0 \(a\) has shape \(7, 1025\)": lambda b: b.__setitem__(0, Array((7, 1025), 1 << 24)),
    r"input 1 \(w_gate\) has shape \(1024, 3072\)": lambda b: b.__setitem__(1, Array((1024, 3072), 1 << 25)),
    r"input 0 \(a\) has strides \(1, 7\)": lambda b: b.__setitem__(0, Array((7, 1024), 1 << 24, strides=(2, 14))),
    "input 0 has byte strides": lambda b: b.__setitem__(0, Array((7, 1024), 1 << 24, strides=(2049, 1))),
    "which is not aligned to 16 bytes": lambda b: b.__setitem__(3, Array((1024, 3072), (1 << 26) + 8)),
    r"input 2 \(w_up\) is at address 0": lambda b: b.__setitem__(2, Array((3072, 1024), 0)),
    r"output 0 has shape \(8, 1024\)": lambda b: b.__setitem__(4, Array((8, 1024), 1 << 28)),
    "output 0 overlaps input 0": lambda b: b.__setitem__(4, Array((7, 1024), (1 << 24) + 1024)),
    "3 inputs, the chain takes 4": lambda b: b.pop(0),
    "typestr '<f8'": lambda b: b.__setitem__(0, Array((7, 1024), 1 << 24, "<f8")),
    "has a mask": lambda b: b.__setitem__(0, Array((7, 1024), 1 << 24, mask=object())),
    "output 0 is read-only": lambda b: b.__setitem__(4, Array((7, 1024), 1 << 28, data=(1 << 28, True))),
    r"__cuda_array_interface__ that failed: ZeroDivisionError": lambda b: b.__setitem__(0, Broken()),
    "cannot be read": lambda b: b.__setitem__(0, Array(None, 1 << 24)),
    f"input 1 is the address {-(1 << 25)}, not": lambda b: b.__setitem__(1, Array((3072, 1024), -(1 << 25))),
    f"output 0 is the address {2**64 + (1 << 24)}, not": lambda b: b.__setitem__(4, Array((7, 1024), 2**64 + (1 << 24))),
    r"input 0 has a __cuda_array_interface__ that cannot be read: .*'float'": lambda b: b.__setitem__(0, Array((7.0, 1024))),
    r"input 1 has a __cuda_array_interface__ that cannot be read: .*'str'": lambda b: b.__setitem__(1, Array((7, 9), strides="ab")),
    r"the stream of input 0 is -1, not": lambda b: b.__setitem__(0, Array((7, 1024), 1 << 24, stream=-1)),
    "the address -16": lambda b: b.__setitem__(0, -16),
    r"m is 129, the plan was prepared for at most 128": lambda b: b.__setitem__(0, Array((129, 1024), 1 << 24)),
}


@pytest.mark.parametrize("message", BAD)
@pytest.mark.parametrize("how", ["call", "bind"])
def test_bad_buffers_are_named(gpu, launchable, buffers, message, how):
    BAD[message](buffers)
    *inputs, out = buffers
    before = gpu.stats().launches
    with pytest.raises(sinter.Error, match=message):
        launchable(*inputs, out=out) if how == "call" else launchable.bind(*inputs, out=out)
    assert gpu.stats().launches == before


def test_wrong_types_are_type_errors(launchable, buffers):
    *inputs, out = buffers
    for bad in ("x", None, 1.5, [1, 2]):
        with pytest.raises(TypeError, match="input 0 is a"):
            launchable(bad, *inputs[1:], out=out)
    with pytest.raises(TypeError, match="the stream of input 0 is 's', which is no integer"):
        launchable(Array((7, 1024), 1 << 24, stream="s"), *inputs[1:], out=out)
    for bad in (True, "7"):
        with pytest.raises(TypeError, match="m is"):
            launchable(*inputs, out=out, m=bad)
    binding = launchable.bind(*inputs, out=out)
    for call in (lambda: binding.add_to_graph("x"), lambda: binding.add_to_graph(1, ["x"]), lambda: binding.add_to_graph(1, None)):
        with pytest.raises(TypeError, match="graph is|dependencies"):
            call()
    with pytest.raises(TypeError, match="stream is a str"):
        launchable(*inputs, out=out, stream="main")
    with pytest.raises(TypeError, match="binding is a NoneType, not a sinter.Binding"):
        _binding.GraphNodes.update(None, 1, None)
    with pytest.raises(sinter.Error, match="output 0 cannot be made"):
        launchable(*inputs)
    with pytest.raises(sinter.Error, match="out has 2 buffers"):
        launchable(*inputs, out=(out, out))


def test_pdl_reaches_the_library(launchable, buffers, monkeypatch):
    *inputs, out = buffers
    binding, library, flags = launchable.bind(*inputs, out=out), _library.library(), []
    for name, place in (("sinter_plan_launch", 7), ("sinter_binding_launch", 4), ("sinter_binding_add_to_graph", 6)):

        def watched(*arguments, place=place):
            flags.append(arguments[place])
            return 1  # fails, with no error to read

        monkeypatch.setattr(library, name, watched)
    uses = (lambda pdl: launchable(*inputs, out=out, pdl=pdl), lambda pdl: binding(pdl=pdl), lambda pdl: binding.add_to_graph(1, pdl=pdl))
    for use in uses:
        for pdl in (False, True):
            with pytest.raises(sinter.Error):
                use(pdl)
    assert flags == [0, _abi.LAUNCH_PDL, 0, _abi.LAUNCH_PDL, 0, _abi.GRAPH_PDL] and 0 not in (_abi.LAUNCH_PDL, _abi.GRAPH_PDL)


@pytest.mark.parametrize("word", ["no", 1, None])
def test_pdl_is_true_or_false(gpu, launchable, buffers, monkeypatch, word):
    *inputs, out = buffers
    binding, before = launchable.bind(*inputs, out=out), gpu.stats().launches
    monkeypatch.setattr(gpu._driver, "wait_for", lambda *_: pytest.fail("a stream waits"))
    inputs[0] = Array((7, 1024), 1 << 24, stream=77)
    uses = (lambda: launchable(*inputs, out=out, pdl=word), lambda: binding(pdl=word), lambda: binding.add_to_graph(1, pdl=word))
    for use in uses:
        with pytest.raises(TypeError, match=f"pdl is {word!r}, neither True nor False"):
            use()
    assert gpu.stats().launches == before


def test_another_devices_memory_is_refused(gpu, launchable, buffers, monkeypatch):
    monkeypatch.setattr(gpu._driver, "device_of", lambda address: 3)
    *inputs, out = buffers
    with pytest.raises(sinter.Error, match=r"input 0 \(a\) is on device 3, the plan runs on device 0"):
        launchable(*inputs, out=out)


def test_declared_aliases_may_share(gpu, need_compiler):
    def plan(alias):
        b = sinter.Builder()
        x = b.input("bf16", (sinter.M, 64))
        b.output((x * 2).cast("bf16"), alias=x if alias else None)
        return gpu.prepare(b.finish(), m=8)

    x = Array((4, 64), 1 << 24)
    assert plan(True)(x, out=x) is x
    with pytest.raises(sinter.Error, match="overlaps"):
        plan(True)(x, out=Array((4, 64), (1 << 24) + 128))
    with pytest.raises(sinter.Error, match="output 0 overlaps input 0"):
        plan(False)(x, out=x)


def test_outputs_are_made_by_cupy(monkeypatch):
    cuda = types.SimpleNamespace(alloc=lambda size: size)
    cupy = types.SimpleNamespace(cuda=cuda, ndarray=lambda *made: made)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    array = type("ndarray", (), {"__module__": "cupy"})()
    b = sinter.Builder()
    x = b.input("f32", (sinter.M, 64))
    b.output(x.cast("s8"))
    b.output(x.cast("s32"), strides=(128, 1))
    eight, wide = b.finish().outputs(3)
    assert _plan._allocate([array], eight, 0) == ((3, 64), "int8", 192, (64, 1))
    assert _plan._allocate([array], wide, 1) == ((3, 64), "int32", (2 * 128 + 64) * 4, (512, 4))


def test_strides_that_grow_with_m_serve_one_m(launchable, buffers, monkeypatch):
    # No kernel family takes such a chain yet.
    monkeypatch.setattr(sinter.Chain, "strides_use_m", lambda chain: True)
    *inputs, out = buffers
    binding = launchable.bind(*inputs, out=out)
    assert binding() is out
    with pytest.raises(sinter.Error, match="7 rows only"):
        binding(6)


def test_streams_of_many_makers():
    from sinter._stream import handle

    class Torch:
        cuda_stream = 11

    class CuPy:
        ptr = 12

    class Protocol:
        def __cuda_stream__(self):
            return (0, 13)

    assert [handle(stream) for stream in (None, 10, Torch(), CuPy(), Protocol())] == [0, 10, 11, 12, 13]
    class Bad:
        def __init__(self, told):
            self.told = told

        def __cuda_stream__(self):
            if isinstance(self.told, Exception):
                raise self.told
            return self.told

    for bad in ("s", 1.5, -1, Bad((0, "x")), Bad((0, None)), Bad((0, -1)), Bad((0, 2**64)), type("T", (), {"ptr": -1})()):
        with pytest.raises(TypeError, match="stream is"):
            handle(bad)
    for bad in (Bad(None), Bad((0,)), Bad(ValueError("no"))):
        with pytest.raises(sinter.Error, match="stream has a __cuda_stream__ that failed"):
            handle(bad)
