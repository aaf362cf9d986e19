"""Inputs of a graph, drawn with NumPy from a seed: float64 arrays whose values the input's dtype holds.

Floats are uniform in [-1, 1), but f32 in [0.25, 1): in these graphs f32 inputs are statistics, second moments and rates,
of which roots are taken. s32 is 0 to 15, pred 0 or 1.
"""

import rounding


def draw_one(rng, dtype, dims, rule, sizes):
    if rule is None:
        rule = {"f32": ("uniform", 0.25, 1.0), "s32": ("below", 16), "pred": ("below", 2)}.get(dtype, ("uniform", -1.0, 1.0))
    if rule[0] == "uniform":
        values = rng.uniform(rule[1], rule[2], size=dims)
    elif rule[0] == "choice":
        values = rng.choice(rule[1], size=dims)
    else:  # below a number, or the size of that name
        values = rng.integers(0, sizes.get(rule[1], rule[1]), size=dims)
    return rounding.round_to(dtype, values)


def draw_inputs(graph, seed, draws=None, sizes=None):
    import numpy
    draws = draws or {}
    rng = numpy.random.default_rng(seed)
    return [draw_one(rng, i["dtype"], i["dims"], draws.get(i["name"]), sizes or {}) for i in graph["inputs"]]
