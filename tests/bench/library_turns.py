#!/usr/bin/env python3
"""Two builds of libsinter in one process, interleaved: the same chains, the same tensors, one GPU.

Usage: library_turns.py OLD.so NEW.so [--graphs FILE|FOLDER,..] [--list FILE [--ids A,B]]... [--out FILE]
Needs a GPU and PyTorch. A row: chain, predicted and measured microseconds of both, kernels of both, how many times as long the newer takes,
and how far the results of both lie apart, relative to the older ones' norm. Plans are chosen by prediction. A
chain's calls are CUDA graphs over sets of tensors that hold more than 240 MB together.
"""

import argparse
import math
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "stitch"))
import torch  # noqa: E402

import sinter_abi  # noqa: E402
import turns  # noqa: E402

ROTATED, MOST_SETS, LEAST_CALLS = 240e6, 1024, 24
ABI = sinter_abi.ABI
NAMES = {value: name[6:].lower() for name, value in vars(ABI).items() if name.startswith("DTYPE_")}
FLOATS = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}


def bytes_of(info):
    return max(int(info.bytes), 1)


def drawn(info, generator):
    """Bytes of a tensor: floats of [-1, 1), f32 of [0.25, 1), zeros and ones of integers."""
    name, size = NAMES.get(info.dtype, ""), bytes_of(info)
    if name in FLOATS:
        dtype = FLOATS[name]
        width = torch.empty((), dtype=dtype).element_size()
        values = torch.rand(max(1, size // width), generator=generator, device="cuda")
        values = values * 0.75 + 0.25 if name == "f32" else values * 2 - 1
        return values.to(dtype).view(torch.uint8)
    flat = torch.zeros(size, dtype=torch.uint8, device="cuda")
    if name == "pred":
        flat.random_(0, 2, generator=generator)
    elif name == "s8":
        flat.random_(0, 256, generator=generator)
    return flat


def values_of(info, flat):
    name = NAMES.get(info.dtype, "")
    return (flat.view(FLOATS[name]) if name in FLOATS else flat).float()


class Contestant:
    """One library's plan of a chain, bound to all sets of tensors."""

    def __init__(self, library, context, make, stream):
        self.library, self.stream = library, stream
        self.chain, self.m = make(library)
        self.plan = sinter_abi.Plan(library, context, self.chain, self.m)
        self.workspace = torch.full((max(self.plan.workspace_bytes, 256),), 255, dtype=torch.uint8, device="cuda")
        self.address = self.workspace.data_ptr() if self.plan.workspace_bytes else 0
        torch.cuda.synchronize()
        self.plan.init_workspace(self.address, stream.cuda_stream)
        torch.cuda.synchronize()

    def bind(self, sets):
        def call(buffers):
            launch = self.plan.launcher(self.plan.bind([one.data_ptr() for one in buffers], self.address))
            return lambda: launch(self.stream.cuda_stream)

        return [call(buffers) for buffers in sets]


def measure(libraries, contexts, make, stream):
    """[(contestant, microseconds)] of both, and the distance of their results."""
    both = [Contestant(library, context, make, stream) for library, context in zip(libraries, contexts)]
    inputs, outputs = libraries[1].buffers(both[1].chain, both[1].m)
    generator = torch.Generator(device="cuda").manual_seed(1)
    first = [drawn(info, generator) for info in inputs]
    count = min(MOST_SETS, max(2, math.ceil(ROTATED / sum(bytes_of(info) for info in inputs + outputs))))
    sets = [[one if i == 0 else one.clone() for one in first] +
            [torch.zeros(bytes_of(info), dtype=torch.uint8, device="cuda") for info in outputs] for i in range(count)]
    order = [i % count for i in range(max(LEAST_CALLS, count))]
    apart, results, graphs = 0.0, [], {}
    for i, contestant in enumerate(both):
        calls = contestant.bind(sets)
        for tensor, drawn_once in zip(sets[0], first):
            tensor.copy_(drawn_once)  # what an output is stored over
        torch.cuda.synchronize()  # the inputs are written by another stream
        calls[0]()
        torch.cuda.synchronize()
        results.append([values_of(info, flat).clone() for info, flat in zip(outputs, sets[0][len(inputs):])])
        graph, kept = turns.capture(torch, stream, [calls[i] for i in order])
        graphs[i] = (graph, len(order))
        contestant.kept = (calls, kept)
    for old, new in zip(*results):
        norm = old.double().norm().item()
        apart = max(apart, (new.double() - old.double()).norm().item() / norm if norm > 0 else 0.0)
    figures = turns.replayed(torch, graphs, rounds=10)
    return [(contestant, figures[i]["us"]) for i, contestant in enumerate(both)], apart


def cases(arguments):
    """(name, function of a library that gives chain and m)."""
    for path in filter(None, (arguments.graphs or "").split(",")):
        files = [path] if os.path.isfile(path) else sorted(os.path.join(path, name) for name in os.listdir(path))
        for file in files:
            with open(file, encoding="utf-8") as text:
                graph = text.read()
            yield os.path.basename(file)[:-5], lambda library, graph=graph: (library.chain_from_json(graph), sinter_abi.NO_M)
    for number, path in enumerate(arguments.list or []):
        wanted = set(filter(None, arguments.ids[number].split(","))) if number < len(arguments.ids or []) else None
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                words = line.split()
                if not words or line.startswith("#") or (wanted and words[0] not in wanted):
                    continue
                text = line.strip()
                yield words[0], lambda library, text=text: library.chain_from_line(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs=2)
    parser.add_argument("--graphs")
    parser.add_argument("--list", action="append")
    parser.add_argument("--ids", action="append")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    torch.zeros(1, device="cuda")
    libraries = [sinter_abi.Library(path) for path in arguments.libraries]
    contexts = []
    for library in libraries:  # each has a cache of its own: plans of both would have one key
        os.environ["SINTER_CACHE_DIR"] = tempfile.mkdtemp(prefix="sinter-turns-")
        contexts.append(library.made("sinter_context_create", None))
    stream = torch.cuda.Stream()
    lines, ratios = [f"{torch.cuda.get_device_name()}; predicted and measured us of both, kernels"], []

    def tell(line):
        print(line, flush=True)
        lines.append(line)

    for name, make in cases(arguments):
        try:
            ((old, old_us), (new, new_us)), apart = measure(libraries, contexts, make, stream)
        except (sinter_abi.SinterError, RuntimeError) as error:
            tell(f"{name:28s} {error}")
            continue
        ratios.append(new_us / old_us)
        tell(f"{name:28s} {old.plan.predicted_us:8.2f} {new.plan.predicted_us:8.2f} {old_us:9.2f} {new_us:9.2f} "
             f"{old.plan.kernels:3d} {new.plan.kernels:3d} {new_us / old_us:6.3f}  apart {apart:.1e}")
        torch.cuda.empty_cache()
    if ratios:
        tell(f"geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f} of {len(ratios)}")
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
