"""Poolings and depthwise convolutions through the pass of torch.compile's backend."""

import itertools
import json

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

import sinter.torch
from sinter.torch.backend import planner
from sinter.torch.runtime import eager, verify
from sinter.torch.backend.graph_pass import SinterPass
from sinter.torch.backend import compile_with, split_options

from everyday import sampled
from graphs import DEVICE, passed
from test_torch_backend import half, left, normed, run

N = torch.nn
TOGETHER = "made of weights alone, for all parts at once"


def point(channels=16, to=16):
    return N.Conv2d(channels, to, 1), N.ReLU()


def by_channel(taps=3, channels=16, **more):
    return N.Conv2d(channels, channels, taps, groups=channels, **more)


class Line(N.Module):
    """A depthwise convolution as in a state-space model: it reads values of earlier tokens, whose channels are adjacent in memory."""

    def __init__(self):
        super().__init__()
        self.inner, self.convolution = N.Linear(32, 16), N.Conv1d(16, 16, 4, padding=3, groups=16)

    def forward(self, x):
        y = self.convolution(self.inner(x).transpose(1, 2))[..., : x.shape[1]]
        return N.functional.silu(y).transpose(1, 2)


MODELS = {
    "depthwise": (normed(*point(), by_channel(padding=1, bias=False), N.BatchNorm2d(16), N.SiLU(), *point()), 16),
    "wide": (half(*point(), by_channel((5, 3), padding=(2, 4), stride=2, dilation=(1, 2)), N.GELU()), 16),
    "max": (half(*point(), N.MaxPool2d(3, 2, 1), *point()), 16),
    "max_up": (half(*point(), N.MaxPool2d((2, 3), ceil_mode=True), *point()), 16),
    "mean": (half(*point(), N.AvgPool2d(2), *point()), 16),
    "mean_pads": (half(*point(), N.AvgPool2d(3, 2, 1), *point()), 16),
    "mean_inside": (half(*point(), N.AvgPool2d(3, 1, 1, count_include_pad=False), *point()), 16),
    "mean_up": (half(*point(), N.AvgPool2d(3, 3, ceil_mode=True), *point()), 15),
    "adaptive": (half(*point(), N.AdaptiveAvgPool2d(4), *point()), 16),
    "one_pixel": (half(*point(), N.AdaptiveAvgPool2d(1), *point()), 16),
}


def in_groups(channels, to, groups, taps=3, **more):
    return N.Conv2d(channels, to, taps, groups=groups, **more)


class Position(N.Module):
    """A module of speech models: a convolution of a line with a long filter, whose last result is left out."""

    def __init__(self):
        super().__init__()
        convolution = N.Conv1d(48, 48, 8, padding=4, groups=3)
        self.inner, self.convolution = N.Linear(32, 48), N.utils.parametrizations.weight_norm(convolution, name="weight", dim=2)

    def forward(self, x):
        y = self.inner(x)
        return y + N.functional.gelu(self.convolution(y.transpose(1, 2))[:, :, :-1]).transpose(1, 2)


#: A block of RegNet, with groups of 8 channels, of ResNeXt, of 4, and of ShuffleNet, whose filters have one tap; several results of each channel.
GROUPS = {
    "regnet": normed(*point(), in_groups(16, 16, 2, stride=2, padding=1, bias=False), N.BatchNorm2d(16), N.ReLU(), *point()),
    "resnext": normed(*point(), in_groups(16, 16, 4, padding=1, bias=False), N.BatchNorm2d(16), N.ReLU(), *point()),
    "shuffle": half(in_groups(16, 32, 2, 1), N.ReLU(), in_groups(32, 16, 4, 1), N.ReLU()),
    "several": half(*point(), in_groups(16, 32, 16, padding=1), N.GELU(), *point(32)),
    "dilated": half(*point(), in_groups(16, 32, 2, (3, 1), dilation=(2, 1), padding=(2, 0)), N.SiLU(), *point(32)),
}


@pytest.mark.parametrize("name", GROUPS)
def test_convolutions_in_groups_are_right_and_taken(name):
    x = torch.randn(2, 16, 10, 12).bfloat16().to(memory_format=torch.channels_last)
    _, reports = run(GROUPS[name], x)
    assert "aten.convolution.default" not in left(reports), left(reports)
    assert "groups" in "".join(part.made.chain.to_json() for part in reports[0].taken)


#: First convolutions of models: taps, pads, channels, width, and the taps along a row that a kernel reads.
STEMS = {
    "efficientnet": ((3, 3), (1, 1), 3, 16, 2),
    "resnet": ((7, 7), (3, 3), 3, 16, 4),
    "inception": ((3, 3), (0, 0), 3, 16, 2),
    "even": ((4, 6), (1, 2), 3, 16, 3),
    "of four channels": ((3, 3), (1, 1), 4, 16, 2),
    "odd": ((3, 3), (1, 1), 3, 15, 3),
    "wide": ((3, 3), (1, 1), 6, 16, 3),
}


@pytest.mark.parametrize("name", STEMS)
def test_stems_by_two_read_pixels_in_pairs(name):
    taps, pads, channels, width, along = STEMS[name]
    x = torch.randn(2, channels, 14, width).bfloat16().to(memory_format=torch.channels_last)
    _, reports = run(normed(N.Conv2d(channels, 16, taps, 2, pads, bias=False), N.BatchNorm2d(16), N.SiLU()), x)
    document = json.loads(reports[0].taken[0].made.chain.to_json())
    values = [*document["inputs"], *document["ops"]]
    filters = [values[op["in"][1]]["dims"] for op in document["ops"] if op["op"] == "conv2d"]
    assert [dims[1:3] for dims in filters] == [[taps[0], along]]


def test_a_line_in_groups_is_taken():
    _, reports = run(half(Position()), torch.randn(2, 12, 32).bfloat16())
    assert "aten.convolution.default" not in left(reports), left(reports)


@pytest.mark.parametrize("name", MODELS)
def test_windows_are_right_and_taken(name):
    model, side = MODELS[name]
    x = torch.randn(2, 16, side, side).bfloat16().to(memory_format=torch.channels_last)
    _, reports = run(model, x)
    others = {why for _, why in reports[0].left}
    assert len(reports[0].taken) == 1 and not others, left(reports)


def test_a_line_of_each_channel_is_taken():
    _, reports = run(half(Line()), torch.randn(2, 12, 32).bfloat16())
    assert "aten.convolution.default" not in left(reports), left(reports)


def test_other_windows_are_inductors():
    class Indices(N.Module):
        def forward(self, x):
            values, places = N.functional.max_pool2d(x.relu(), 2, return_indices=True)
            return N.functional.silu(values) + places

    image = lambda side: torch.randn(2, 16, side, side).bfloat16().to(memory_format=torch.channels_last)
    cases = [
        (half(*point(), N.AvgPool2d(3, 2, ceil_mode=True), *point()), 16, "reach over the pads"),
        (half(*point(), N.AvgPool2d(2, divisor_override=3), *point()), 16, "a divisor of its own"),
        (half(*point(), N.AdaptiveAvgPool2d(5), *point()), 16, ""),
        (half(*point(), Indices(), *point()), 16, "more than its values is read"),
    ]
    for model, side, why in cases:
        with torch.no_grad():
            compiled, reports = passed(model.to(DEVICE))
            x = image(side).to(DEVICE)
            assert verify.difference(compiled(x), model(x), 2e-2)[1] and all(c.within for c in verify.comparisons)
        assert any(why in told for told in left(reports).values()), left(reports)


@pytest.mark.parametrize(
    "x, dynamic",
    [
        (torch.randn(8, 13, 17).bfloat16(), None),
        pytest.param(torch.randint(-9, 9, (1, 2, 8, 8), dtype=torch.int32), None, marks=pytest.mark.skipif(DEVICE == "cuda", reason="torch has none of integers there")),
        (torch.randn(2, 8, 12, 16).bfloat16(), True),
    ],
    ids=["no_batch", "integers", "symbolic"],
)
def test_a_maximum_that_no_chain_has_leaves_the_rest_to_parts(x, dynamic, monkeypatch):
    """Nodes that pick from the operator's results are not captured either."""
    monkeypatch.setattr(planner, "worth_a_try", lambda *_: True)

    def f(t):
        return N.functional.max_pool2d(t * 2, 2) * 2 + 1

    x = x.to(DEVICE)
    with torch.no_grad():
        compiled, reports = passed(f, dynamic=dynamic)
        assert verify.difference(compiled(x), f(x), 2e-2)[1] and all(c.within for c in verify.comparisons)
    assert "prims._low_memory_max_pool_with_offsets.default" in left(reports), left(reports)
    assert reports[0].taken or dynamic or x.dtype == torch.int32, left(reports)
    if dynamic is None:
        assert "_low_memory_max_pool" in str(sinter.torch.explain(f, x))


def test_filters_of_weights_have_their_channels_beside_each_other(monkeypatch):
    """A convolution that is not captured reads its original weight."""
    model, x = MODELS["depthwise"][0], torch.randn(2, 16, 16, 16).bfloat16().to(memory_format=torch.channels_last)
    _, reports = run(model, x)
    assert (3, 1, 3, 16) in [info.shape for info in reports[0].taken[0].made.chain.inputs()]

    monkeypatch.setattr(planner, "worth_a_try", lambda *_: True)
    for gain, copies in ((1e6, 1), (0.0, 0)):
        monkeypatch.setattr(planner, "inductor_us", lambda *_: gain)
        with torch.no_grad():
            compiled, reports = passed(model.to(DEVICE), {"verify": False})
            assert verify.difference(compiled(x.to(DEVICE)), model(x.to(DEVICE)), 2e-2)[1]
        assert len(reports[0].taken) == copies
        assert [why for _, why in reports[0].of_weights].count(TOGETHER) >= copies


@pytest.mark.parametrize("name", MODELS)
def test_what_computes_without_a_plan_holds_no_windows(name):
    """The fallback computes instead of the reference: each pixel once for each window would take many times the image's memory."""
    model, side = MODELS[name]
    x = torch.randn(2, 16, side, side).bfloat16().to(memory_format=torch.channels_last)
    _, reports = run(model, x)
    chain = reports[0].taken[0].made.chain
    document = json.loads(chain.to_json())
    ops = eager._with_windows(document["ops"], document)
    assert not any(op["op"] == "window" for op in ops)


@pytest.mark.parametrize("kind, taps", [("max", 3), ("mean", 2), ("sum", 2), ("min", 2)])
def test_what_computes_without_a_plan_is_right(kind, taps):
    b = sinter.Builder()
    x = b.input("bf16", (2, 9, 7, 8))
    moves = dict(stride=(1, 2), dilation=(2, 1), padding=(1, 0, 0, 1))
    seen = sinter.window(x, b.scalar(1.0 if kind == "min" else 0.0, "bf16"), taps, **moves)
    b.output(getattr(seen if kind in ("max", "min") else seen.cast("f32"), kind)((3, 4)))
    chain = b.finish()
    image = torch.randn(2, 9, 7, 8).bfloat16()
    (found,) = eager.by_torch(chain)([image], 0)
    padded = N.functional.pad(image.float().permute(0, 3, 1, 2), (0, 1, 1, 0), value=1.0 if kind == "min" else 0.0)
    height, width = found.shape[1:3]
    pixels = [
        padded[:, :, 2 * r : 2 * r + height, s : s + 2 * width : 2][:, :, :, :width] for r in range(taps) for s in range(taps)
    ]
    stacked = torch.stack(pixels)
    expected = {"max": stacked.amax, "min": stacked.amin, "mean": stacked.mean, "sum": stacked.sum}[kind](0).permute(0, 2, 3, 1)
    assert torch.allclose(found.float(), expected, rtol=1e-2, atol=1e-2)


def test_images_enlarged_to_the_nearest_pixel_are_taken():
    for factor, laid in ((2, torch.channels_last), ((3, 1), torch.channels_last), (2, torch.contiguous_format)):
        model = half(*point(), N.Upsample(scale_factor=factor), *point())
        x = torch.randn(2, 16, 6, 5).bfloat16().to(memory_format=laid)
        _, reports = run(model, x)
        assert len(reports[0].taken) == 1 and not any("ndex" in name for name in left(reports)), left(reports)
    _, reports = run(half(*point(), N.Upsample(size=(9, 8)), *point()), x)
    assert left(reports)["aten._unsafe_index.Tensor"] == "rows by indices"


class Scaled(N.Module):
    def __init__(self, **how):
        super().__init__()
        self.how = {"mode": "bilinear", **how}

    def forward(self, x):
        return N.functional.interpolate(x, **self.how)


#: Whole factors, as decoders have them, sizes that are no multiple, smaller images.
SCALED = [
    {"scale_factor": 2},
    {"scale_factor": 2, "align_corners": True},
    {"scale_factor": (1.5, 3.0)},
    {"scale_factor": 1.7, "recompute_scale_factor": True},
    {"size": (9, 8)},
    {"size": (13, 2), "align_corners": True},
    {"size": (3, 20), "align_corners": True},
    {"size": (24, 5)},
]


LAID = [torch.channels_last, torch.contiguous_format]


@pytest.mark.parametrize("how, laid", sampled(itertools.product(SCALED, LAID), 6), ids=str)
def test_images_between_pixels_are_one_operator(how, laid):
    model = half(*point(), Scaled(**how), *point())
    x = torch.randn(2, 16, 6, 5).bfloat16().to(memory_format=laid)
    _, reports = run(model, x)
    assert len(reports[0].taken) == 1 and not any("ndex" in name or "upsample" in name for name in left(reports)), left(reports)
    found = [op["op"] for op in json.loads(reports[0].taken[0].made.chain.to_json())["ops"]]
    assert found.count("gather") == 4


def test_images_between_pixels_in_f32_are_near_torchs():
    for how in sampled(SCALED, 4):
        model = N.Sequential(Scaled(**how), N.SiLU())
        x = torch.randn(2, 8, 7, 6)
        _, reports = run(model, x)
        assert reports[0].taken and not left(reports), left(reports)


class Widened(N.Module):
    """A partition's input is interpolated in f32, as in hybrids of convolutions and attention."""

    def forward(self, x):
        return N.functional.interpolate(x.float(), scale_factor=2, mode="bilinear").bfloat16().relu() + 1


def test_images_that_are_widened_first_are_taken():
    _, reports = run(Widened(), torch.randn(2, 8, 7, 6).bfloat16())
    assert reports[0].taken and not left(reports), left(reports)


class Transposed(N.Module):
    """Between pixels, with rows along the last axis."""

    def forward(self, x):
        at = ((torch.arange(8, device=x.device) + 0.5) * 0.5 - 0.5).clamp(min=0)
        low = at.to(torch.int64)
        high, share = (low + 1).clamp(max=3), at - low
        rows, columns = (low[None], high[None]), (low[:, None], high[:, None])
        down = share[:, None]
        top, bottom = (self._line(x, row, columns, down) for row in rows)
        return (top + (bottom - top) * share) * 2

    def _line(self, x, row, columns, share):
        first, second = (x[:, :, row, column] for column in columns)
        return first + (second - first) * share


def test_images_between_pixels_of_a_transposed_result_stay_transposed():
    x = torch.randn(2, 8, 4, 4).to(DEVICE)
    with torch.no_grad():
        compiled, _ = passed(Transposed())
        assert torch.allclose(compiled(x), Transposed()(x), atol=1e-5)


@pytest.mark.skipif(DEVICE != "cpu", reason="plans for a chip that is not here")
def test_images_between_pixels_pass_through_inductor(monkeypatch):
    """Inductor calls the pass under its dispatcher, which decomposes operators. With CI set it refuses operators that it would decompose."""
    monkeypatch.setenv("CI", "1")
    own, _ = split_options(None, {"target": "h200"})
    wide = half(*point(256, 256), Scaled(size=(32, 32)), *point(256, 256))
    for model, x, taken in ((wide, (1, 256, 8, 8), 1), (N.Sequential(Scaled(size=(9, 8)), N.ReLU()), (2, 16, 6, 5), 0)):
        reports = []
        made = lambda gm, inputs: compile_with(SinterPass(own, reports), gm, inputs, {"fx_graph_cache": False})  # reports let errors out
        torch._dynamo.reset()
        x = torch.randn(x).to(next(model.parameters(), torch.zeros(1)).dtype)
        with torch.no_grad():
            y, expected = torch.compile(model, backend=made)(x), model(x)
        assert len(reports) == 1 and len(reports[0].taken) == taken
        assert (y.float() - expected.float()).norm() < 1e-2 * expected.float().norm()


def test_images_between_pixels_that_are_left_are_computed():
    model = N.Sequential(Scaled(scale_factor=2), Scaled(size=(7, 9), align_corners=True))
    x = torch.randn(3, 8, 4, 6).to(DEVICE)
    with torch.no_grad():
        compiled, reports = passed(lambda x: model(x[:, ::2].double()) * 2)
        assert torch.allclose(compiled(x), model(x[:, ::2].double()) * 2)
    with torch.no_grad():
        compiled, reports = passed(lambda x: model(x) * 2, dynamic=True)
        assert torch.allclose(compiled(x), model(x) * 2, atol=1e-5)


def test_repeats_and_powers_of_a_number_are_taken():
    class Model(N.Module):
        def forward(self, x):
            return (2.0 ** x.float()).to(x.dtype).repeat(2, 1, 3) * 1.5

    _, reports = run(Model(), torch.randn(4, 16).bfloat16())
    assert not left(reports), left(reports)


def test_logarithms_and_powers_to_other_bases_are_exact_where_they_are_integers():
    class Model(N.Module):
        def forward(self, x):
            wide = x.float().abs() + 1
            return torch.cat([wide.log2().to(x.dtype), wide.log10().to(x.dtype), wide.exp2().to(x.dtype)], -1) * 2

    x = torch.tensor([[0.0, 1, 3, 7, 9, 31, 63, 99]]).bfloat16().repeat(4, 2)
    found, reports = run(Model(), x)
    assert not left(reports) and torch.equal(found[:, 1:4].cpu(), torch.tensor([[2.0, 4, 6]] * 4).bfloat16()), "exact where it is an integer"
