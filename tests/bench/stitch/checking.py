"""What tests of graphs share: a run of the reference executor, and what counts as equal."""

import numpy

import dag
import rounding

MANTISSA = {"f32": (23, -126), "bf16": (7, -126), "f16": (10, -14), "e4m3": (3, -6)}
STORED = {"bf16": "u2", "e4m3": "u1", "pred": "u1", "f32": "f4", "f16": "f2", "s32": "i4"}
# Formulas use exact constants where a graph has f32 ones.
CONSTANTS = 2e-7


def type_of(graph, value):
    """The input or op that a value is."""
    return next(v for v in graph["inputs"] + graph["ops"] if v["id"] == value)


def run_reference(library, graph, inputs):
    """The outputs of the reference executor as float64, for float64 inputs that their dtypes hold."""
    chain = library.chain_from_json(dag.to_text(graph))
    stored = [rounding.encode(i["dtype"], x) for i, x in zip(graph["inputs"], inputs)]
    results = []
    for out, data in zip(graph["outputs"], library.reference(chain, stored)):
        value = type_of(graph, out["value"])
        array = numpy.frombuffer(bytes(data), dtype=STORED[value["dtype"]]).reshape(value["dims"])
        results.append(rounding.decode(value["dtype"], array))
    return results


def half_step(dtype, x):
    """Half the distance of neighbours of `dtype` at x."""
    bits, lowest = MANTISSA[dtype]
    _, exponent = numpy.frexp(x)
    return numpy.ldexp(0.5, numpy.maximum(exponent - 1, lowest) - bits)


def expect_rounded(test, what, out, want, dtype):
    """`out` is `want` rounded once; near the middle of two neighbours either will do."""
    test.assertEqual(out.shape, want.shape, what)
    test.assertTrue(numpy.isfinite(out).all(), what)
    if dtype not in MANTISSA:
        numpy.testing.assert_array_equal(out, want, what)
        return
    clipped = numpy.clip(want, -448, 448) if dtype == "e4m3" else want
    slack = CONSTANTS * numpy.maximum(numpy.abs(want), numpy.sqrt(numpy.mean(want**2)))
    excess = numpy.abs(out - clipped) - half_step(dtype, clipped) - slack
    test.assertLessEqual(excess.max(), 0, f"{what}: element {excess.argmax()}")
