"""Two convolutions of NHWC images, bias and ReLU between them. Without a GPU or torch: the plan for an H200."""

import sys

import sinter

SIZE, IN, MIDDLE, OUT = 28, 128, 128, 512


def describe():
    """3 x 3, then 1 x 1; any number of images."""
    b = sinter.Builder()
    x = b.input("bf16", (sinter.M, SIZE, SIZE, IN))
    first, bias = b.constant("bf16", (MIDDLE, 3, 3, IN)), b.constant("bf16", (MIDDLE,))
    second = b.constant("bf16", (OUT, 1, 1, MIDDLE))
    c = sinter.relu(sinter.conv2d(x, first, padding=1) + bias).cast("bf16")
    return b.finish(sinter.conv2d(c, second).cast("bf16"))


def run(torch):
    torch.manual_seed(1)
    shapes = ((8, SIZE, SIZE, IN), (MIDDLE, 3, 3, IN), (MIDDLE,), (OUT, 1, 1, MIDDLE))
    x, first, bias, second = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) / 16 for shape in shapes)
    with sinter.Context() as context:
        plan = context.prepare(describe(), m=8)
        y = plan(x, first, bias, second)
        planes = [value.permute(0, 3, 1, 2).float() for value in (x, first, second)]  # as torch wants them
        c = torch.relu(torch.nn.functional.conv2d(planes[0], planes[1], bias.float(), padding=1)).bfloat16().float()
        wanted = torch.nn.functional.conv2d(c, planes[2]).permute(0, 2, 3, 1)
        error = float((y.float() - wanted).norm() / wanted.norm())
        print(f"{plan.name}, {plan.kernel_count} kernels: relative error {error:.1e}")
        return error < 1e-2


def main():
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None and torch.cuda.is_available():
        return 0 if run(torch) else 1
    with sinter.Context(target="h200") as context:
        print(context.prepare(describe(), m=8).summary())
    return 0


if __name__ == "__main__":
    sys.exit(main())
