"""torch.compile's backend on chips that have only stitched kernels, planned for their models: no such chip is needed."""

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

import sinter
from sinter.torch.gate import gate
from sinter.torch.partition.supported import OF_HOPPER

N = torch.nn
CHIPS = ("a100", "rtx-4090", "rtx-5090")


class Block(N.Module):
    """A product, then an activation and sums over the rows, for which Inductor has separate kernels."""

    def __init__(self):
        super().__init__()
        self.up = N.Linear(256, 2048, dtype=torch.bfloat16)

    def forward(self, x):
        y = self.up(x)
        return N.functional.gelu(y), y.float().sum(0), y.float().square().sum(0)


@pytest.mark.parametrize("target", CHIPS)
def test_products_are_left_and_a_part_of_rows_is_taken(target):
    told = sinter.torch.explain(Block(), torch.randn(256, 256).bfloat16(), target=target)
    left = {name: why for name, why in told.left}
    assert left.get("aten.addmm.default") == OF_HOPPER, left
    assert told.taken and f"planned for {target}" in str(told), str(told)
    assert all("addmm" not in part.name for part in told.taken)
    assert told.predicted_us * 1.3 <= told.inductor_us, "a gain that nobody measured is taken with a margin"


def test_the_same_model_keeps_its_product_on_a_hopper_chip():
    told = sinter.torch.explain(Block(), torch.randn(256, 256).bfloat16(), target="h200")
    assert OF_HOPPER not in {why for _, why in told.left}


def test_many_products_do_not_use_up_the_tries_of_a_part():
    layers = [part for _ in range(8) for part in (N.Linear(512, 512), N.Softmax(-1))]
    told = sinter.torch.explain(N.Sequential(*layers).bfloat16(), torch.randn(4096, 512).bfloat16(), target="a100")
    assert told.left[("aten.addmm.default", OF_HOPPER)] == 8, told.left
    assert not any("beside others that were refused" in why for _, why in told.left), told.left


def test_attention_and_convolutions_are_left():
    class Both(N.Module):
        def __init__(self):
            super().__init__()
            self.conv = N.Conv2d(64, 64, 3, padding=1)

        def forward(self, x):
            y = self.conv(x).flatten(2).transpose(1, 2).unsqueeze(1)
            return torch.nn.functional.scaled_dot_product_attention(y, y, y)

    told = sinter.torch.explain(Both().bfloat16(), torch.randn(2, 64, 32, 32).bfloat16(), target="a100")
    assert {name.split(".")[1] for (name, why) in told.left if why == OF_HOPPER} >= {"convolution"}


def test_a_margin_holds_for_chips_without_measured_models():
    for target, most in (("h200", 1.0), ("h100", 1.0), ("a100", 1 / 1.3)):
        with sinter.Context(target=target) as context:
            assert gate.share_of_limit([], 10.0, context.describe()["model"], lambda size: size) == most
