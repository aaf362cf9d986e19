"""Tensors by DLPack: sound ones, ones that lie, and a fuzz target of capsules."""

import ctypes
import os
import random
import time

import pytest

import sinter
from sinter import _buffers, _dlpack

from conftest import Array, Broken, DLPack


def test_dlpack_is_read_where_the_array_interface_fails():
    """The interface of older JAX fails in this way for bf16."""
    both = type("Both", (DLPack, Broken), {})((7, 1024))
    seen = _buffers.describe(both, "x")
    assert seen.address == 1 << 24 and seen.dtype is sinter.DType.BF16


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack_is_read(gpu, launchable, buffers, versioned):
    x = DLPack((7, 1024), versioned=versioned, strides=(1024, 1))
    _, *rest, out = buffers
    launchable(x, *rest, out=out)
    assert x.streams == [1]
    seen = _buffers.describe(x, "x", 0x70)
    assert seen.address == 1 << 24 and seen.dtype is sinter.DType.BF16 and seen.shape == (7, 1024)
    assert seen.strides == (1024, 1) and seen.device == 0 and x.streams[-1] == 0x70
    assert _buffers.describe(DLPack((7, 1024), offset=32), "x").address == (1 << 24) + 32


@pytest.mark.parametrize(
    "dtype, code, bits, typestr",
    [
        ("F32", 2, 32, "<f4"),
        ("F16", 2, 16, "<f2"),
        ("BF16", 4, 16, "<V2"),
        ("S32", 0, 32, "<i4"),
        ("PRED", 6, 8, "|b1"),
        ("E4M3", 10, 8, "|V1"),
        ("S8", 0, 8, "|i1"),
        ("S64", 0, 64, "<i8"),
    ],
)
def test_producers_types_are_ours(dtype, code, bits, typestr):
    for value in (DLPack((7, 64), code=code, bits=bits), Array((7, 64), typestr=typestr)):
        assert _buffers.describe(value, "x").dtype is sinter.DType[dtype]


BAD_DLPACK = {
    "DLPack device type 1": lambda: DLPack((7, 1024), device=(1, 0)),
    r"input 0 \(a\) is on device 1": lambda: DLPack((7, 1024), device=(2, 1)),
    "type code 2 of 64 bits": lambda: DLPack((7, 1024), code=2, bits=64),
    "has dtype f16": lambda: DLPack((7, 1024), code=2, bits=16),
    "DLPack version 9": lambda: DLPack((7, 1024), major=9),
    "strides": lambda: DLPack((7, 1024), strides=(1, 7)),
    "no DLPack capsule": lambda: type("P", (DLPack,), {"__dlpack__": lambda *_, **__: 5})((7, 1024)),
    "could not be exported": lambda: type("P", (DLPack,), {"__dlpack__": lambda *_, **__: 1 / 0})((7, 1024)),
    "device type 2, id 1, but its __dlpack_device__ says type 2, id 0": lambda: DLPack((7, 1024), says=(2, 0), device=(2, 1)),
    "device type 1, id 0, but": lambda: DLPack((7, 1024), device=(1, 0), says=(2, 0)),
    "input 0 has rank 2 by DLPack, and its shape is NULL": lambda: DLPack((7, 1024), shape=None),
    "rank -1 by DLPack, not 0 to 6": lambda: DLPack((7, 1024), rank=-1),
    "rank 7 by DLPack": lambda: DLPack((7, 1024, 1, 1, 1, 1, 1)),
    "an extent is less than 0": lambda: DLPack((7, -1024)),
    "its data is NULL": lambda: DLPack((7, 1024), data=None, offset=1 << 24),
    "of 2 lanes": lambda: DLPack((7, 1024), dtype=_dlpack._Type(4, 16, 2)),
    "not 0 to 2\\^64": lambda: DLPack((7, 1024), offset=2**64 - 16),
    "id -1, not 0 to": lambda: DLPack((7, 1024), says=(2, -1)),
    "__dlpack_device__ that failed: TypeError": lambda: DLPack((7, 1024), says=("cuda", 0)),
    "__dlpack_device__ that failed: ValueError": lambda: DLPack((7, 1024), says=(2, 0, 0)),
    "__dlpack_device__ that failed": lambda: type("P", (DLPack,), {"__dlpack_device__": lambda _: None})((7, 1024)),
}


@pytest.mark.parametrize("message", BAD_DLPACK)
def test_bad_dlpack_is_named(launchable, buffers, message):
    _, *rest, out = buffers
    with pytest.raises(sinter.Error, match=message):
        launchable(BAD_DLPACK[message](), *rest, out=out)


def test_read_only_dlpack_is_no_output(launchable, buffers):
    *inputs, _ = buffers
    out = DLPack((7, 1024))
    for flags, message in ((1, "output 0 is read-only"), (2, "output 0 is a copy")):
        out.managed.flags = flags
        with pytest.raises(sinter.Error, match=message):
            launchable(*inputs, out=out)
    launchable(out, *inputs[1:], out=buffers[4])  # as an input it is one like others


# ---------------------------------------------------------------- The fuzz target

NOWHERE = ctypes.cast(16, ctypes.POINTER(ctypes.c_int64))  # nothing may be read there
EDGES = (0, 1, 2, 3, 7, 127, 128, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, -1, -2, -(2**31), -(2**63))


def random_producer(draw):
    """A producer, of which each claim is sound or not, and whether all are."""
    odd = lambda chance=0.08: draw.random() < chance
    extents = [7, 1024] if odd(0.2) else [draw.choice((1, 2, 3, 64)) for _ in range(draw.randrange(7))]
    sound = True
    if extents and odd():
        extents[draw.randrange(len(extents))] = extent = draw.choice(EDGES)
        sound = extent >= 0
    made = DLPack(extents, versioned=draw.random() < 0.5, strides=[draw.choice(EDGES[:12]) for _ in extents] or None)
    tensor = made.managed.tensor
    if odd(0.3):
        tensor.strides = None  # the standard allows it
    if odd():
        tensor.rank = draw.choice((-1, 7, 8, 65, 2**31 - 1, -(2**31)))
        sound, tensor.shape, tensor.strides = False, NOWHERE, NOWHERE
    elif not extents and odd(0.5):
        tensor.shape = tensor.strides = NOWHERE
    elif extents and odd():
        sound, tensor.shape = False, None
    if odd():
        tensor.data = None
        sound = sound and 0 in extents
    if odd():
        tensor.byte_offset = offset = draw.choice((1, 16, 2**63, 2**64 - 1, 2**64 - (1 << 24)))
        sound = sound and (tensor.data or 0) + offset < 2**64
    if odd():
        tensor.dtype = _dlpack._Type(draw.randrange(256), draw.randrange(256), draw.choice((0, 1, 2, 65535)))
        known = (tensor.dtype.code, tensor.dtype.bits) in _buffers._DLPACK_TYPES
        sound = sound and known and tensor.dtype.lanes == 1
    if odd():
        tensor.device = (draw.choice((0, 1, 2, 3, 13, 14, -1)), draw.choice((0, 1, -1, 2**31 - 1)))
    if odd():
        made.says = draw.choice(((13, 0), (2, 1), (2, 2**31), (2.0, 0), ("2", 0), (2,), (2, 0, 0), None, 5, (1, 0)))
    sound = sound and repr(made.says) in ("(2, 0)", "(2, 1)", "(13, 0)", f"(2, {2**31 - 1})", f"(13, {2**31 - 1})")
    sound = sound and made.says == (tensor.device.type, tensor.device.id)
    if made.versioned:
        made.managed.flags = draw.choice((0, 0, 1, 2, 3, 4, 2**64 - 1))
        if odd():
            made.managed.version.major = draw.choice((0, 2, 2**32 - 1))
            sound = False
    if odd(0.03):
        made.capsule_name, sound = draw.choice((b"used_dltensor", b"", b"dltensor_versioned_", None)), False
    return made, sound


def test_no_capsule_crashes_or_lies(launchable, buffers):
    """SINTER_FUZZ_SECONDS runs it longer. What fails names its seed."""
    *inputs, out = buffers
    end = time.monotonic() + float(os.environ.get("SINTER_FUZZ_SECONDS", "1.5"))
    seed = sounds = refused = 0
    while time.monotonic() < end or sounds < 50 or refused < 50:
        made, sound = random_producer(random.Random(seed))
        try:
            found = _buffers.describe(made, "x")
        except sinter.Error as error:
            assert not sound and error.message.startswith("x "), (seed, error)
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
        else:
            assert sound and all(extent >= 0 for extent in found.shape), seed
            sounds += 1
            if seed % 16 == 0:  # a launch takes it, or says why not
                try:
                    launchable(made, *inputs[1:], out=out)
                except sinter.Error as error:
                    assert error.message.startswith(("input 0 ", "output 0 has shape", "m is ")), (seed, error)
                else:
                    assert found.shape == (7, 1024), seed
        seed += 1
