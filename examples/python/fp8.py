"""A gated FFN of 8-bit floats with a scale a row and a channel. Without a GPU or torch: its plan for an H200."""

import sys

import sinter

K, N = 1024, 3072


def scaled(b, name, shape, constant=False):
    """Codes and the scale of each of their rows."""
    leaf = b.constant if constant else b.input
    return sinter.Scaled(leaf("e4m3", shape, name=name), leaf("f32", (shape[0], 1), name=f"scale_{name}"))


def describe():
    """c = silu(x gate') * (x up') is quantised a row before it meets down."""
    b = sinter.Builder()
    x = scaled(b, "x", (sinter.M, K))
    gate, up, down = (scaled(b, name, shape, True) for name, shape in (("gate", (N, K)), ("up", (N, K)), ("down", (K, N))))
    return b.finish(sinter.scaled_gated_ffn(x, gate, up, down, quantizer=sinter.Quantizer("row")).cast("bf16"))


def run(torch):
    def quantized(values):
        scale = values.abs().amax(1, keepdim=True).clamp(min=1e-10) / 448
        return (values / scale).to(torch.float8_e4m3fn), scale

    def product(a, w):
        return (a[0].float() * a[1]) @ (w[0].float() * w[1]).T

    torch.manual_seed(1)
    x, gate, up, down = (quantized(torch.randn(shape, device="cuda")) for shape in ((128, K), (N, K), (N, K), (K, N)))
    with sinter.Context() as context:
        plan = context.prepare(describe(), m=128)
        y = plan(*x, *gate, *up, *down)
        wanted = product(quantized(torch.nn.functional.silu(product(x, gate)) * product(x, up)), down)
        error = float((y.float() - wanted).norm() / wanted.norm())
        print(f"{plan.name}, {plan.kernel_count} kernels: relative error {error:.1e}")
        return error < 2e-2  # a code at the border between two falls to either side


def main():
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None and torch.cuda.is_available():
        return 0 if run(torch) else 1
    with sinter.Context(target="h200") as context:
        print(context.prepare(describe(), m=128).summary())
    return 0


if __name__ == "__main__":
    sys.exit(main())
