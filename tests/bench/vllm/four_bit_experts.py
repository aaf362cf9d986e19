#!/usr/bin/env python3
"""Gated FFNs of experts whose weights are mxfp4, as gpt-oss has them: vLLM's kernels and Sinter's plan, in turns.

    PYTHONPATH=bindings/python LIBSINTER_PATH=... python3 tests/bench/vllm/four_bit_experts.py OUT.json [--rows 1,4,8,16,64] [--seconds N]

Contestants: Marlin and Triton of vLLM (`fused_marlin_moe`, `triton_kernel_moe_forward`; Triton's time includes routing from logits, which
the others get done) and Sinter's plan of `four_bit_grouped_gated_ffn`. Each has eight calls in a CUDA graph, with other rows and routes in
each call, so that few weights are cached; graphs are replayed in turns. All are compared with a reference in float32. A contestant whose
packages are missing is left out. Needs a Hopper GPU, vLLM 0.24 for the peers and torch.
"""

import argparse
import os
import sys
import time
from types import SimpleNamespace

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import rows_file  # noqa: E402
import turns  # noqa: E402

HIDDEN, INNER, TOP, GROUP = 2880, 2880, 4, 32
#: vLLM pads for Marlin: multiples of 256 and 128.
PADDED_HIDDEN, PADDED_INNER = 3072, 2944
MODELS = {"gpt-oss-20b": 32, "gpt-oss-120b": 128}
CALLS = 8
NUMBERS = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
LIMIT, ALPHA = 7.0, 1.702
CHAIN = (
    "four_bit_grouped_gated_ffn m=M experts={experts} top={top} n={inner} k={hidden} l={hidden} act=silu order=interleaved "
    "group=32 codes=e2m1 bias1=1 bias2=1 alpha=1.702 beta=1 limit=7"
)


class Layer:
    """Codes, E8M0 scales and biases of all experts, padded with zeros for a kernel that asks for it."""

    def __init__(self, experts, device):
        generator = torch.Generator(device).manual_seed(7)

        def matrix(columns, k):
            shape = (experts, columns, k)
            codes = torch.randint(0, 256, (*shape[:2], k // 2), dtype=torch.uint8, device=device, generator=generator)
            scales = torch.randint(119, 123, (*shape[:2], k // GROUP), dtype=torch.uint8, device=device, generator=generator)
            return codes, scales

        self.w1, self.s1 = matrix(2 * INNER, HIDDEN)
        self.w2, self.s2 = matrix(HIDDEN, INNER)
        self.b1 = torch.randn(experts, 2 * INNER, device=device, generator=generator) * 0.1
        self.b2 = torch.randn(experts, HIDDEN, device=device, generator=generator) * 0.1

    def padded(self):
        """The same as Marlin's wrapper wants them."""

        def pad(x, *sizes):
            made = x.new_zeros((x.shape[0], *sizes))
            made[tuple(slice(0, n) for n in x.shape)] = x
            return made

        return (
            pad(self.w1, 2 * PADDED_INNER, PADDED_HIDDEN // 2), pad(self.s1, 2 * PADDED_INNER, PADDED_HIDDEN // GROUP),
            pad(self.w2, PADDED_HIDDEN, PADDED_INNER // 2), pad(self.s2, PADDED_HIDDEN, PADDED_INNER // GROUP),
            pad(self.b1, 2 * PADDED_INNER), pad(self.b2, PADDED_HIDDEN),
        )


def dequantised(codes, scales):
    table = torch.tensor(NUMBERS, device=codes.device)
    both = torch.stack([table[(codes & 15).long()], table[(codes >> 4).long()]], -1).flatten(-2)
    return both * torch.exp2(scales.float() - 127).repeat_interleave(GROUP, -1)


def reference(layer, x, ids, weights):
    """In float32, of a few rows."""
    y = torch.zeros(x.shape[0], HIDDEN, device=x.device)
    for row in range(x.shape[0]):
        for weight, e in zip(weights[row], ids[row]):
            h = dequantised(layer.w1[e], layer.s1[e]) @ x[row].float() + layer.b1[e]
            gate, up = h[::2].clamp(max=LIMIT), h[1::2].clamp(-LIMIT, LIMIT)
            y[row] += weight * (dequantised(layer.w2[e], layer.s2[e]) @ (gate * torch.sigmoid(ALPHA * gate) * (up + 1)) + layer.b2[e])
    return y


def routes(m, experts, device):
    """For each call rows, router logits, ids and weights. One row takes other experts in each call."""
    found = []
    for i in range(CALLS):
        logits = torch.randn(m, experts, device=device)
        if m == 1:
            logits[0, [(i * TOP + j) % experts for j in range(TOP)]] += 20
        logits = logits.to(torch.bfloat16)
        top = torch.topk(logits.float(), TOP, dim=-1)
        x = torch.randn(m, HIDDEN, device=device).to(torch.bfloat16)
        found.append((x, logits, top.indices.to(torch.int32).contiguous(), torch.softmax(top.values, -1).contiguous()))
    return found


def marlin(layer, experts):
    from vllm import _custom_ops as ops
    from vllm.model_executor.layers.fused_moe.activation import MoEActivation
    from vllm.model_executor.layers.fused_moe.experts.marlin_moe import fused_marlin_moe
    from vllm.model_executor.layers.quantization.utils.marlin_utils_fp4 import prepare_moe_mxfp4_layer_for_marlin
    from vllm.scalar_type import scalar_types

    w1, s1, w2, s2, b1, b2 = layer.padded()
    p1, p2, q1, q2, c1, c2 = prepare_moe_mxfp4_layer_for_marlin(SimpleNamespace(params_dtype=torch.bfloat16), w1, w2, s1, s2, b1, b2)

    def call(x, _logits, ids, weights):
        wide = torch.nn.functional.pad(x, (0, PADDED_HIDDEN - HIDDEN)) if x.shape[1] != PADDED_HIDDEN else x
        y = torch.empty_like(wide)
        fused_marlin_moe(wide, p1, p2, c1, c2, q1, q2, weights, ids, scalar_types.float4_e2m1f.id, activation=MoEActivation.SWIGLUOAI,
                         moe_sum=ops.moe_sum, global_num_experts=experts, output=y)
        return y

    return call


def triton(layer, _experts):
    import vllm.model_executor.layers.fused_moe.experts.gpt_oss_triton_kernels_moe as oss
    from triton_kernels.matmul_ogs import FlexCtx, PrecisionConfig
    from vllm.model_executor.layers.fused_moe.config import mxfp4_w4a16_moe_quant_config
    from vllm.model_executor.layers.quantization.utils.mxfp4_utils import _swizzle_mxfp4

    p1, f1, q1 = _swizzle_mxfp4(layer.w1, layer.s1)
    p2, f2, q2 = _swizzle_mxfp4(layer.w2, layer.s2)
    config = mxfp4_w4a16_moe_quant_config(PrecisionConfig(weight_scale=q1, flex_ctx=FlexCtx(rhs_data=f1)),
                                          PrecisionConfig(weight_scale=q2, flex_ctx=FlexCtx(rhs_data=f2)), layer.b1, layer.b2)
    return lambda x, logits, _ids, _weights: oss.triton_kernel_moe_forward(x, p1, p2, logits, TOP, True, quant_config=config)


def sinters(layer, experts):
    import sinter

    chain = sinter.Chain.from_text(CHAIN.format(experts=experts, top=TOP, inner=INNER, hidden=HIDDEN))
    context = sinter.Context()
    scales = [(one.to(torch.int16) << 7).view(torch.bfloat16) for one in (layer.s1, layer.s2)]  # E8M0 is bf16's exponent
    codes = [one.view(torch.int8) for one in (layer.w1, layer.w2)]
    biases = [one.to(torch.bfloat16) for one in (layer.b1, layer.b2)]
    plans = {}

    def call(x, _logits, ids, weights):
        m = x.shape[0]
        if m not in plans:
            plans[m] = context.prepare(chain, m=m)
        return plans[m](x, ids, weights, codes[0], scales[0], biases[0], codes[1], scales[1], biases[1])

    return call


CONTESTANTS = {"Marlin": marlin, "Triton": triton, "sinter": sinters}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--rows", default="1,4,8,16,64")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seconds", type=float, default=120)
    given = parser.parse_args()
    begin, device = time.monotonic(), torch.device("cuda")
    torch.manual_seed(1)
    document = {"machine": turns.machine(torch), "rows": [], "failures": []}
    wrong = False
    for model in given.models.split(","):
        experts = MODELS[model]
        layer = Layer(experts, device)
        made = {}
        for name, make in CONTESTANTS.items():
            try:
                made[name] = make(layer, experts)
            except Exception as why:  # of packages that may be missing
                document["failures"].append(f"{model} {name}: {type(why).__name__}: {why}"[:300])
        for m in map(int, given.rows.split(",")):
            if time.monotonic() - begin > given.seconds:
                document["failures"].append(f"{model} from {m} rows on: no time left")
                break
            calls = routes(m, experts, device)
            few = [one[:4] for one in (calls[0][0], calls[0][2], calls[0][3])]
            want = reference(layer, *few)
            row = {"model": model, "m": m, "experts": sum(len(one[2].unique()) for one in calls) / CALLS, "errors": {}}
            for name, call in made.items():
                y = call(*calls[0])[:4, :HIDDEN].float()
                row["errors"][name] = float((y - want).norm() / want.norm())
                wrong = wrong or not row["errors"][name] < 0.02
            wide = {name: [lambda call=call, one=one: call(*one) for one in calls] for name, call in made.items()}
            if "Marlin" in made:  # gets rows that are padded already
                padded = [(torch.nn.functional.pad(one[0], (0, PADDED_HIDDEN - HIDDEN)), *one[1:]) for one in calls]
                wide["Marlin"] = [lambda one=one: made["Marlin"](*one) for one in padded]
            row["us"] = turns.in_turns(torch, wide, least_calls=CALLS)
            row["limit_us"] = round(row["experts"] * 3 * HIDDEN * INNER * 17 / 32 / 4.55e6, 2)
            document["rows"].append(row)
            print(f"{time.monotonic() - begin:5.1f} s {model} {m}: {row['us']} errors {row['errors']}", flush=True)
            rows_file.write(given.out, document)
        del layer, made
        torch.cuda.empty_cache()
    rows_file.write(given.out, document)
    return 1 if wrong or not document["rows"] else 0


if __name__ == "__main__":
    with torch.inference_mode():
        sys.exit(main())
