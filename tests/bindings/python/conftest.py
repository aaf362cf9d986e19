"""Helpers that the tests of the Python package share. None of the tests needs a GPU, torch or numpy.

LIBSINTER_PATH names the library, FAKE_LIBCUDA the stand-in for the driver, PYTHONPATH holds bindings/python.
"""

import ctypes
import gc
import logging
import os
import re
import sys

import pytest

import sinter
from sinter import _dlpack

import everyday

S8 = "gated_ffn m=M n=3072 k=1024 l=1024 act=silu dtype=bf16"
SMALL = "rmsnorm rows=M cols=64 dtype=bf16"


class Array:
    """Memory on the fake GPU, as CuPy or Numba would show it."""

    def __init__(self, shape, address=1 << 20, typestr="<V2", strides=None, **more):
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (address, False),
            "strides": strides,
            "version": 3,
            **more,
        }


class Broken:
    """An array whose interface fails, like older JAX's for bf16."""

    @property
    def __cuda_array_interface__(self):
        return 1 / 0


class DLPack:
    """A producer with a capsule of one of both forms. `says`: the device that it reports outside the capsule; `claims`: fields of the capsule's
    tensor that are set last."""

    def __init__(self, extents, code=4, bits=16, device=(2, 0), strides=None, versioned=True, major=1, offset=0, says=None, **claims):
        self.shape = (ctypes.c_int64 * max(len(extents), 1))(*extents)
        self.strides = strides and (ctypes.c_int64 * len(strides))(*strides)
        self.says, self.streams, self.deleted = says or device, [], []
        tensor = _dlpack._Tensor(
            data=1 << 24,
            device=_dlpack._Device(*device),
            rank=len(extents),
            dtype=_dlpack._Type(code, bits, 1),
            shape=self.shape,
            strides=self.strides,
            byte_offset=offset,
        )
        for field, value in claims.items():
            setattr(tensor, field, value)
        self.versioned = versioned
        self.capsule_name = b"dltensor_versioned" if versioned else b"dltensor"
        self.managed = (
            _dlpack._ManagedVersioned(version=_dlpack._Version(major, 0), tensor=tensor)
            if versioned
            else _dlpack._Managed(tensor=tensor)
        )

    def __dlpack_device__(self):
        return self.says

    def __dlpack__(self, *, stream=None, **more):
        if more and not self.versioned:
            raise TypeError("unexpected keyword max_version")
        self.streams.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.managed), self.capsule_name, None)


def pytest_collection_modifyitems(config, items):
    if os.environ.get("CI") and not everyday.LONG:
        left_out = set(everyday.left_out_in_ci(items))
        config.hook.pytest_deselected(items=sorted(left_out, key=items.index))
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish(session):
    """Makes compilations by torch cheaper, which are most of these tests' time.

    A full collection over the objects that imports made takes a third of a second. They live to the end and are frozen. Dynamo keeps most of what it
    allocates: with Python's own thresholds, collections are a fifth of a small model's compilation.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    if "torch._dynamo.guards" in sys.modules:
        leave_out_logs()


def leave_out_logs():
    """Drops what Dynamo computes for logs that no test reads.

    It flushes the processor's caches to time its guards. It writes all settings as JSON for each compilation. It writes each graph as text if the logger has a handler, and pytest attaches one to each
    logger that does not propagate.
    """
    sys.modules["torch._dynamo.guards"].profile_guard_manager = lambda *_: 0.0
    sys.modules["torch._dynamo.utils"].record_compilation_metrics = lambda *_, **__: None
    trace = logging.getLogger("torch.__trace")
    trace.handlers.clear()
    trace.propagate = True


@pytest.fixture(autouse=True, scope="session")
def fields_are_of_the_message():
    """Checks each error of each test: its fields are what its message says."""
    made, named = sinter.Error.__init__, re.compile(r"\bop (\d+)\b")

    def checked(self, *given, **more):
        made(self, *given, **more)
        found = named.search(self.message)
        assert self.op == (int(found[1]) if found else None), (self.op, self.message)
        assert all(text is None or text and text in self.message for text in (self.field, self.value, self.bound)), vars(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sinter.Error, "__init__", checked)
        yield


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory):
    """Kept between runs where the build says where, so that only the first compiles."""
    return os.environ.get("SINTER_CACHE_DIR") or str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def context(cache_dir):
    """Prepares for an H200 without a GPU."""
    with sinter.Context(target="h200", cache_dir=cache_dir) as made:
        yield made


@pytest.fixture(scope="session")
def need_compiler(context):
    """Fails where a kernel must be compiled and nothing can; skips if SINTER_TEST_NO_NVRTC=1 tells so."""
    try:
        context.prepare(SMALL, m=8)
    except sinter.Error as error:
        if error.code == sinter.Status.UNAVAILABLE and os.environ.get("SINTER_TEST_NO_NVRTC") == "1":
            pytest.skip(f"no run-time compiler: {error}")
        raise


@pytest.fixture(scope="session")
def plan(context, need_compiler):
    """S8 for up to 128 rows."""
    return context.prepare(S8, m=128)


@pytest.fixture(scope="session")
def gpu(cache_dir, need_compiler):
    """A context on the fake driver's H200."""
    path = os.environ.get("FAKE_LIBCUDA")
    if not path:
        pytest.skip("FAKE_LIBCUDA names no fake driver")
    with sinter.Context(0, driver_path=path, cache_dir=cache_dir) as made:
        yield made


@pytest.fixture(scope="session")
def launchable(gpu):
    """S8 for up to 128 rows on the fake GPU."""
    return gpu.prepare(S8, m=128)


@pytest.fixture
def buffers():
    """x, gate, up, down and y of S8 for 7 rows, apart from one another."""
    shapes = [(7, 1024), (3072, 1024), (3072, 1024), (1024, 3072), (7, 1024)]
    return [Array(shape, (i + 1) << 24) for i, shape in enumerate(shapes)]
