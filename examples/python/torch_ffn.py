"""A gated FFN on torch tensors, in a CUDA graph. Without a GPU or torch: its plan for an H200."""

import sys

import sinter

K, N = 1024, 3072


def describe():
    """y = (silu(x gate') * (x up')) down' for any number of rows; weights are [out, in], as nn.Linear stores them."""
    b = sinter.Builder()
    x = b.input("bf16", (sinter.M, K))
    gate, up, down = b.constant("bf16", (N, K)), b.constant("bf16", (N, K)), b.constant("bf16", (K, N))
    return b.finish(sinter.gated_ffn(x, gate, up, down, activation="silu"))


def run(torch):
    torch.manual_seed(1)
    x, *weights = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) / 32 for shape in ((128, K), (N, K), (N, K), (K, N)))
    with sinter.Context() as context:
        plan = context.prepare(describe(), m=128)  # once, for all m up to 128
        plan(x, *weights)  # on torch's current stream; loads what a capture must not
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = plan(x, *weights)
        graph.replay()
        gate, up, down = (weight.float() for weight in weights)
        wanted = (torch.nn.functional.silu(x.float() @ gate.T) * (x.float() @ up.T)) @ down.T
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
        print(context.prepare(describe(), m=128).summary())
    return 0


if __name__ == "__main__":
    sys.exit(main())
