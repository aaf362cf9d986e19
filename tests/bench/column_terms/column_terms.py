"""What a bias, and a folded batch norm, add to the time of a product or a convolution: plans by prediction with and without,
in turns, and beside them cuBLAS with its own bias. Needs a GPU, PyTorch and the package `sinter`.

    python3 column_terms.py [--products] [--convolutions] --out FILE
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

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import rows_file  # noqa: E402
import turns  # noqa: E402
from source_state import of_library  # noqa: E402

ROWS = (512, 1024, 2048, 4096, 8192)
LAYERS = ((1024, 1024), (4096, 1024), (1024, 4096), (1280, 1280), (5120, 1280), (1280, 5120), (3072, 768), (2304, 768))  # n, k
IMAGES = (32, 8)
# Of ResNet-50: channels in, side, channels out, taps.
CONVOLUTIONS = (
    (64, 56, 64, 1), (64, 56, 64, 3), (64, 56, 256, 1), (256, 56, 64, 1), (128, 28, 128, 3), (128, 28, 512, 1), (512, 28, 128, 1),
    (256, 14, 256, 3), (256, 14, 1024, 1), (1024, 14, 256, 1), (512, 7, 512, 3), (512, 7, 2048, 1), (2048, 7, 512, 1),
)
FORMS = {"plain": "", "bias": " act=relu bias=1", "scale": " act=relu scale=1 bias=1"}
COLD_BYTES = 240e6  # operands rotate over more than L2 holds


def product(n, k, bias):
    return f"matmul m=M n={n} k={k}" + (" bias1=1" if bias else "")


def convolution(case, form):
    return "conv b=M ic={0} h={1} w={1} oc={2} k={3}".format(*case) + FORMS[form]


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.05


def copies(elements):
    return max(1, min(8, int(COLD_BYTES / (2 * elements)) + 1))


def error(found, wanted):
    return float(f"{((found.float() - wanted).norm() / wanted.norm()).item():.1e}")


def measure_product(plans, rows, n, k):
    count, bias = copies(n * k + rows * k + rows * n), random(n)
    pairs = [(random(rows, k), random(n, k)) for _ in range(count)]
    plain, biased = (plans[product(n, k, with_bias), rows] for with_bias in (False, True))
    x, w = pairs[0]
    wrong = error(biased(x, w, bias), F.linear(x.float(), w.float(), bias.float()))
    us = turns.in_turns(torch, {
        "plain": [lambda x=x, w=w: plain(x, w) for x, w in pairs],
        "bias": [lambda x=x, w=w: biased(x, w, bias) for x, w in pairs],
        "cublas_bias": [lambda x=x, w=w: F.linear(x, w, bias) for x, w in pairs],
    })
    return dict(rows=rows, n=n, k=k, us=us, bias_over_plain=round(us["bias"] / us["plain"], 3), error=wrong)


def measure_convolution(plans, images, case):
    channels, side, out, taps = case
    count = copies(images * side * side * (channels + out))
    inputs, w, scale, bias = [random(images, side, side, channels) for _ in range(count)], random(out, taps, taps, channels), random(out) + 1, random(out)
    plain, biased, scaled = (plans[convolution(case, form), images] for form in FORMS)
    wanted = F.conv2d(inputs[0].permute(0, 3, 1, 2).float(), w.permute(0, 3, 1, 2).float(), padding=taps // 2).permute(0, 2, 3, 1)
    wrong = error(scaled(inputs[0], w, scale, bias), F.relu(wanted * scale.float() + bias.float()))
    us = turns.in_turns(torch, {
        "plain": [lambda x=x: plain(x, w) for x in inputs],
        "bias": [lambda x=x: biased(x, w, bias) for x in inputs],
        "scale": [lambda x=x: scaled(x, w, scale, bias) for x in inputs],
    })
    return dict(images=images, convolution=case, us=us, error=wrong,
                bias_over_plain=round(us["bias"] / us["plain"], 3), scale_over_plain=round(us["scale"] / us["plain"], 3))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--products", action="store_true")
    parser.add_argument("--convolutions", action="store_true")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    both = not options.products and not options.convolutions
    torch.manual_seed(0)
    context, jobs = sinter.Context(), []
    if both or options.products:
        jobs += [(product(n, k, bias), rows) for rows in ROWS for n, k in LAYERS for bias in (False, True)]
    if both or options.convolutions:
        jobs += [(convolution(case, form), images) for images in IMAGES for case in CONVOLUTIONS for form in FORMS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        plans = dict(zip(jobs, pool.map(lambda job: context.prepare(job[0], m=job[1]), jobs)))
    found = []
    if both or options.products:
        found += [measure_product(plans, rows, n, k) for rows in ROWS for n, k in LAYERS]
    if both or options.convolutions:
        found += [measure_convolution(plans, images, case) for images in IMAGES for case in CONVOLUTIONS]
    document = {"machine": {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}, "date": datetime.date.today().isoformat(),
                **of_library(), "rows": found}
    rows_file.write(options.out, document)
    for name in ("bias_over_plain", "scale_over_plain"):
        ratios = [row[name] for row in found if name in row]
        if ratios:
            print(name, "mean", round(statistics.geometric_mean(ratios), 3), "most", max(ratios))


if __name__ == "__main__":
    main()
