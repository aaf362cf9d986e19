#!/usr/bin/env python3
"""ResNet-50 with random weights in bf16: stages 1 to 4 as Sinter chains, and PyTorch; one CUDA graph each, interleaved.

Usage: resnet.py --out OUT.json [--batches 1,8,32] [--contestants eager,folded,cudnn,layers,..] [--limit 60]. Needs a GPU,
PyTorch and torchvision (or timm with --model timm). The file is written after every batch, and before and after torch.compile.

Batch norms have random statistics. Logits are compared with the same network in float32, TF32 off: a contestant whose relative
error is above 1.3 times that of `eager` is not timed. Stem and head are PyTorch's everywhere. Contestants:
  eager      the network as it is, channels_last, cudnn.benchmark
  folded     its batch norms folded into the convolutions
  cudnn      folded; convolution, bias, residual and ReLU by cuDNN's fused operators
  autotune   folded; torch.compile, max-autotune; autotune_cudnn: with convolutions only by cuDNN
  layers     folded; each convolution with its residual and ReLU a Sinter chain
  blocks     each bottleneck a chain; blocks_pdl: with programmatic edges between the chains too
  stages     each stage a chain; stages_pdl: with programmatic edges too
"""

import argparse
import copy
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]

import network  # noqa: E402
import rows_file  # noqa: E402
import turns  # noqa: E402

CONTESTANTS = ("eager", "folded", "cudnn", "layers", "blocks", "blocks_pdl", "stages", "stages_pdl", "autotune_cudnn", "autotune")
SIZE = 224
REPLAYS = 20  # of a graph in each turn
NOISE, LEAST_NOISE = 1.3, 0.01  # times eager's error; no bound is below the second


def make_model(torch, library):
    """float32, eval; its batch norms have statistics of random images, made to differ by random factors."""
    if library == "timm":
        import timm

        model = timm.create_model("resnet50", pretrained=False)
    else:
        import torchvision

        model = torchvision.models.resnet50(weights=None)
    model = model.cuda().train()
    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    with torch.no_grad():
        for norm in norms:
            norm.momentum = None  # the mean over all calls
            norm.weight.uniform_(0.5, 1.5)
            norm.bias.normal_(0, 0.2)
        for block in (block for i in (1, 2, 3, 4) for block in getattr(model, f"layer{i}")):
            block.bn3.weight.uniform_(0.1, 0.4)  # as trained: what blocks add is less than what passes them
        for _ in range(2):
            model(torch.randn(16, 3, SIZE, SIZE, device="cuda"))
        for norm in norms:
            norm.running_mean.add_(torch.randn_like(norm.running_mean) * norm.running_var.sqrt() * 0.1)
            norm.running_var.mul_(torch.empty_like(norm.running_var).uniform_(0.8, 1.25))
    return model.eval()


def folded_of(torch, model):
    folded = copy.deepcopy(model)
    network.fold(folded, torch.nn.utils.fusion.fuse_conv_bn_eval, torch.nn.Identity)
    return to_bf16(torch, folded)


def to_bf16(torch, model):
    return copy.deepcopy(model).to(dtype=torch.bfloat16, memory_format=torch.channels_last)


def stem_of(torch, folded):
    def stem(x):
        return torch.nn.functional.max_pool2d(torch.relu_(folded.conv1(x)), 3, 2, 1)

    return stem


def head_of(folded):
    def head(y):
        return folded.fc(y.mean((2, 3)))

    return head


def cudnn_forward(torch, folded, stages):
    stem, head = stem_of(torch, folded), head_of(folded)

    def layer(x, l, residual=None):
        w, b, pad = l.module.weight, l.module.bias, [l.taps // 2] * 2
        if residual is None:
            return torch.cudnn_convolution_relu(x, w, b, [l.stride] * 2, pad, [1, 1], 1)
        return torch.cudnn_convolution_add_relu(x, w, residual, 1.0, b, [l.stride] * 2, pad, [1, 1], 1)

    def forward(images):
        x = stem(images)
        for block in (block for blocks in stages for block in blocks):
            y = x
            for l in block.layers[:-1]:
                y = layer(y, l)
            x = layer(y, block.layers[-1], block.shortcut.module(x) if block.shortcut else x)
        return head(x)

    return forward


class SinterNetwork:
    """Stages 1 to 4 as plans for one batch; equal chains share a plan."""

    def __init__(self, torch, context, stages, form, batch):
        import chains

        self.torch, self.plans, self.steps = torch, {}, []
        wanted, height = [], 56
        for blocks in stages:
            groups = [blocks] if form == "stages" else [[block] for block in blocks]
            for group in groups:
                if form == "layers":
                    wanted += self._layers(chains, group[0], height)
                else:
                    weights = [l for block in group for l in block.all_layers()]
                    wanted.append((chains.blocks_chain(group, height), weights, 0, None, 0))
                for block in group:
                    height = chains.height_behind(block, height)
        unique = {chain.digest: chain for chain, *_ in wanted}
        made = context.prepare_many(list(unique.values()), [batch] * len(unique))
        self.plans = dict(zip(unique, made))
        for chain, layers, source, residual, into in wanted:
            self.steps.append((self.plans[chain.digest], [self._weights(l) for l in layers], source, residual, into))

    @staticmethod
    def _layers(chains, block, height):
        """(chain, layers, where x is, where the residual is, where the result goes): 0 the block's x, 1 and 2 other buffers."""
        steps, source, side = [], 0, height
        if block.shortcut:
            steps.append((chains.layer_chain(block.shortcut, height, relu=False), [block.shortcut], 0, None, 2))
        for layer in block.layers[:-1]:
            steps.append((chains.layer_chain(layer, side), [layer], source, None, 1))
            source, side = 1, (side - 1) // layer.stride + 1
        last = block.layers[-1]
        steps.append((chains.layer_chain(last, side, residual=True), [last], 1, 2 if block.shortcut else 0, 0))
        return steps

    def _weights(self, layer):
        w = layer.module.weight.detach().permute(0, 2, 3, 1)
        assert w.is_contiguous(), "weights are not channels_last"
        return w, layer.module.bias.detach()

    def __call__(self, y, pdl=False):
        """Runs on images as [batch, channels, height, width] in channels_last memory."""
        held, early = [y.permute(0, 2, 3, 1), None, None], False
        for plan, weights, source, residual, into in self.steps:
            inputs = [held[source], *[t for pair in weights for t in pair]]
            if residual is not None:
                inputs.append(held[residual])
            held[into] = plan(*inputs, pdl=pdl and early)
            early = True  # the kernel before the first plan is not one of these
        return held[0].permute(0, 3, 1, 2)

    def report(self):
        each = [plan for plan, *_ in self.steps]
        return {"chains": len(each), "plans": len(self.plans), "kernels": sum(plan.kernel_count for plan in each),
                "fused": sum(plan.name == "fused" for plan in each), "predicted_us": sum(plan.predicted_us for plan in each)}


class Batch:
    """The contestants at one batch size."""

    def __init__(self, torch, model, folded, batch, context):
        self.torch, self.model, self.folded, self.batch, self.context = torch, model, folded, batch, context
        self.stages = network.stages_of(folded)
        images = torch.randn(batch, 3, SIZE, SIZE, device="cuda")
        self.wanted = model(images)
        self.images = images.bfloat16().to(memory_format=torch.channels_last)
        self.stream = torch.cuda.Stream()
        self.networks, self.graphs, self.kept, self.rows = {}, {}, [], {}
        self.bound = max(LEAST_NOISE, NOISE * self.error_of(to_bf16(torch, model)(self.images)))

    def error_of(self, logits):
        return ((logits.float() - self.wanted).norm() / self.wanted.norm()).item()

    def forward(self, name):
        torch, folded = self.torch, self.folded
        if name == "eager":
            return to_bf16(torch, self.model)
        if name == "folded":
            return folded
        if name == "cudnn":
            return cudnn_forward(torch, folded, self.stages)
        if name in turns.COMPILE_OPTIONS:
            return turns.compiled(torch, folded, name)
        form, _, pdl = name.partition("_")
        if form not in self.networks:
            self.networks[form] = SinterNetwork(torch, self.context, self.stages, form, self.batch)
        stem, head, stages = stem_of(torch, folded), head_of(folded), self.networks[form]
        return lambda images: head(stages(stem(images), bool(pdl)))

    def add(self, name):
        """Captures a contestant, and checks what its graph computes."""
        forward = self.forward(name)
        graph, kept = turns.capture(self.torch, self.stream, [lambda: forward(self.images)])
        kept[0].fill_(float("nan"))
        graph.replay()
        self.torch.cuda.synchronize()
        error = self.error_of(kept[0])
        same = (kept[0].argmax(1) == self.wanted.argmax(1)).sum().item()
        self.rows[name] = {"relative_error": error, "same_top1": same}
        form = name.split("_")[0]
        if form in self.networks:
            self.rows[name].update(self.networks[form].report())
        if not error <= self.bound:
            raise RuntimeError(f"logits are wrong: relative error {error} above {self.bound}")
        self.graphs[name] = (graph, 1)
        self.kept.append((kept, forward))

    def measure(self):
        for name, figures in turns.replayed(self.torch, self.graphs, REPLAYS).items():
            self.rows[name].update(figures, images_per_s=self.batch / figures["us"] * 1e6)


def run_batch(torch, batch, contestants, limit, finish):
    rows = batch.rows
    compiled = [name for name in contestants if name in turns.COMPILE_OPTIONS]
    for names in ([name for name in contestants if name not in compiled], compiled):
        for name in names:
            try:
                with turns.within(limit):
                    batch.add(name)
            except Exception as error:  # one contestant that cannot run leaves the others
                rows.setdefault(name, {})["failed"] = f"{type(error).__name__}: {error}"[:500]
                torch.cuda.synchronize()
            print(batch.batch, name, rows[name], flush=True)
        if names:
            batch.measure()
            finish()
    for name, row in rows.items():
        print(f"batch {batch.batch:3} {name:11} {row.get('us', 0):9.1f} us {row.get('images_per_s', 0):9.0f} images/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--contestants", default=",".join(CONTESTANTS))
    parser.add_argument("--limit", type=float, default=0, help="seconds to make one contestant ready; 0: any")
    parser.add_argument("--model", choices=("torchvision", "timm"), default="torchvision")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("skipped: no PyTorch")
        return 77
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return 77
    import sinter

    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark, torch.backends.cudnn.benchmark_limit = True, 0  # of all plans
    result = {**turns.machine(torch), "model": arguments.model, "batches": []}
    with torch.no_grad():
        model = make_model(torch, arguments.model)
        folded = folded_of(torch, model)
        with sinter.Context() as context:
            for size in map(int, arguments.batches.split(",")):
                batch = Batch(torch, model, folded, size, context)
                result["batches"].append({"batch": size, "contestants": batch.rows})
                run_batch(torch, batch, arguments.contestants.split(","), arguments.limit,
                          lambda: rows_file.write(arguments.out, result))
    print(f"wrote {arguments.out}")
    failed = [row for entry in result["batches"] for row in entry["contestants"].values() if "failed" in row]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
