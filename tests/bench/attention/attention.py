"""Attention as one kernel, compared with every backend of PyTorch's scaled_dot_product_attention. Layers of encoders with attention inside as
one plan, compared with torch.compile. Plans by prediction, implementations interleaved. Needs a GPU, PyTorch and the package `sinter`.

    python3 attention.py [--kernels] [--layers] --out FILE
"""

import argparse
import datetime
import os
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

import sinter
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import rows_file  # noqa: E402
import turns  # noqa: E402
from source_state import of_library  # noqa: E402

# name, batch, heads, rows, keys, width of a head, what is done to scores
CASES = (
    ("bert_128", 8, 12, 128, 128, 64, ""), ("bert_128_mask", 8, 12, 128, 128, 64, "mask"), ("bert_512", 8, 12, 512, 512, 64, ""),
    ("bert_512_mask", 8, 12, 512, 512, 64, "mask"), ("vit_197", 32, 12, 197, 197, 64, ""), ("vit_577", 8, 16, 577, 577, 64, ""),
    ("swin_49", 64 * 32, 3, 49, 49, 32, "bias"), ("swin_49_late", 32 * 4, 12, 49, 49, 32, "bias"), ("swin_144", 16 * 32, 4, 144, 144, 32, "bias"),
    ("whisper_1500", 4, 20, 1500, 1500, 64, ""), ("whisper_cross", 4, 20, 224, 1500, 64, ""), ("causal_1024", 4, 16, 1024, 1024, 64, "causal"),
    ("head_128", 8, 12, 512, 512, 128, ""), ("head_32", 8, 16, 256, 256, 32, ""), ("one_row", 64, 16, 1, 1024, 64, ""),
)
LAYERS = (("bert_128", 8, 128, 12, 64), ("bert_512", 8, 512, 12, 64), ("vit_197", 32, 197, 12, 64))  # name, batch, rows, heads, width
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
            "math": SDPBackend.MATH}


def attention_chain(batch, heads, rows, keys, width, term):
    b = sinter.Builder()
    q = b.input("bf16", (batch, rows, heads, width), name="q").transpose(0, 2, 1, 3)
    k = b.input("bf16", (batch, keys, heads, width), name="k").transpose(0, 2, 1, 3)
    v = b.input("bf16", (batch, keys, heads, width), name="v").transpose(0, 2, 1, 3)
    bias = b.input("bf16", (heads, rows, keys), name="bias") if term == "bias" else None
    mask = b.input("bool", (batch, 1, 1, keys), name="mask") if term == "mask" else None
    out = sinter.attention(q, k, v, bias=bias, mask=mask, causal=term == "causal").cast("bf16")
    return b.finish(out.transpose(0, 2, 1, 3).reshape(batch, rows, heads * width))


def layer_chain(batch, rows, heads, width):
    b = sinter.Builder()
    wide = heads * width
    def weight(*shape):
        return b.constant("bf16", shape)
    x = b.input("bf16", (batch, rows, wide))
    def project():
        return sinter.linear(x, weight(wide, wide), weight(wide)).cast("bf16").reshape(batch, rows, heads, width).transpose(0, 2, 1, 3)
    q, k, v = project(), project(), project()
    seen = sinter.attention(q, k, v).cast("bf16").transpose(0, 2, 1, 3).reshape(batch, rows, wide)
    y = sinter.layernorm(sinter.linear(seen, weight(wide, wide), weight(wide)) + x.cast("f32"), weight(wide), weight(wide)).cast("bf16")
    inner = sinter.gelu(sinter.linear(y, weight(4 * wide, wide), weight(4 * wide))).cast("bf16")
    z = sinter.linear(inner, weight(wide, 4 * wide), weight(wide)) + y.cast("f32")
    return b.finish(sinter.layernorm(z, weight(wide), weight(wide)).cast("bf16"))


def layer_of_torch(x, heads, weights):
    (wq, bq, wk, bk, wv, bv, wo, bo, g1, b1, w1, c1, w2, c2, g2, b2) = weights
    batch, rows, wide = x.shape
    q, k, v = (F.linear(x, w, c).view(batch, rows, heads, wide // heads).transpose(1, 2) for w, c in ((wq, bq), (wk, bk), (wv, bv)))
    seen = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, rows, wide)
    y = F.layer_norm(F.linear(seen, wo, bo) + x, (wide,), g1, b1)
    return F.layer_norm(F.linear(F.gelu(F.linear(y, w1, c1), approximate="tanh"), w2, c2) + y, (wide,), g2, b2)


def random(*shape, scale=1.0):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * scale


def error(found, wanted):
    return float(f"{((found.float() - wanted.float()).norm() / wanted.float().norm()).item():.1e}")


def measure_kernel(plan, case):
    name, batch, heads, rows, keys, width, term = case
    q, k, v = random(batch, rows, heads, width), random(batch, keys, heads, width), random(batch, keys, heads, width)
    turned = [t.transpose(1, 2) for t in (q, k, v)]
    given, mask = [q, k, v], None
    if term == "bias":
        given.append(random(heads, rows, keys))
        mask = given[3].unsqueeze(0)
    if term == "mask":
        given.append(torch.rand(batch, 1, 1, keys, device="cuda") < 0.8)
        given[3][..., 0] = True
        mask = given[3]
    wide = None if mask is None else mask if mask.dtype == torch.bool else mask.float()
    wanted = F.scaled_dot_product_attention(*(t.float() for t in turned), attn_mask=wide, is_causal=term == "causal")
    wrong = error(plan(*given).reshape(batch, rows, heads, width).transpose(1, 2), wanted)
    del wanted, wide

    def backend(of):
        def call():
            with sdpa_kernel(of):
                return F.scaled_dot_product_attention(*turned, attn_mask=mask, is_causal=term == "causal")
        return call
    contestants = {"sinter": [lambda: plan(*given)]}
    contestants.update({of: [backend(BACKENDS[of])] for of in BACKENDS})
    us = turns.in_turns(torch, contestants)
    best = min((of for of in us if of != "sinter"), key=us.get)
    row = dict(case=name, batch=batch, heads=heads, rows=rows, keys=keys, width=width, term=term, us=us, best=best,
               best_over_sinter=round(us[best] / us["sinter"], 3), error=wrong, predicted_us=round(plan.predicted_us, 3), kernels=plan.kernel_count)
    print(name, us, row["best_over_sinter"], wrong, flush=True)
    return row


def measure_layer(plan, case):
    name, batch, rows, heads, width = case
    wide = heads * width
    def matrix(n, k):
        return random(n, k, scale=k ** -0.5)
    ones = [torch.ones(wide, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    zeros = [torch.zeros(wide, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    weights = []
    for _ in range(4):
        weights += [matrix(wide, wide), random(wide)]
    weights += [ones[0], zeros[0], matrix(4 * wide, wide), random(4 * wide), matrix(wide, 4 * wide), random(wide), ones[1], zeros[1]]
    x = random(batch, rows, wide)
    compiled = torch.compile(lambda y: layer_of_torch(y, heads, weights), dynamic=False)
    wanted = layer_of_torch(x.float(), heads, [w.float() for w in weights])
    wrong = error(plan(x, *weights), wanted)
    with torch.no_grad():
        us = turns.in_turns(torch, {"sinter": [lambda: plan(x, *weights)], "compile": [lambda: compiled(x)],
                                    "eager": [lambda: layer_of_torch(x, heads, weights)]})
    row = dict(layer=name, batch=batch, rows=rows, heads=heads, width=width, us=us, error=wrong, kernels=plan.kernel_count, predicted_us=round(plan.predicted_us, 3), torch_error=error(compiled(x), wanted),
               compile_over_sinter=round(us["compile"] / us["sinter"], 3))
    print("layer", name, us, row["compile_over_sinter"], wrong, row["torch_error"], flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--layers", action="store_true")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    both = not options.kernels and not options.layers
    torch.manual_seed(0)
    context, jobs = sinter.Context(), []
    if both or options.kernels:
        jobs += [(measure_kernel, case, attention_chain(*case[1:])) for case in CASES]
    if both or options.layers:
        jobs += [(measure_layer, case, layer_chain(case[1], case[2], case[3], case[4])) for case in LAYERS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        plans = list(pool.map(lambda job: context.prepare(job[2], m=1), jobs))
    found = [measure(plan, case) for plan, (measure, case, _) in zip(plans, jobs)]
    document = {"machine": {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}, "date": datetime.date.today().isoformat(),
                **of_library(), "rows": found}
    rows_file.write(options.out, document)
    for name in ("best_over_sinter", "compile_over_sinter"):
        ratios = [row[name] for row in found if name in row]
        if ratios:
            print(name, "mean", round(statistics.geometric_mean(ratios), 3), "least", min(ratios))


if __name__ == "__main__":
    main()
