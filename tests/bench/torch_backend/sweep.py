#!/usr/bin/env python3
"""Models that nobody picked, small, on the CPU: the reference computes each part that the backend takes, compared with torch's operators.

    python3 tests/bench/torch_backend/sweep.py OUT.tsv [--models N] [--seed S] [--names NAME,..] [--jobs N] [--seconds S] [--limit S] [--gpu]

Draws from timm.list_models() and from transformers' configurations, builds them with random weights of few layers, and runs
Inductor's graphs node by node after the pass. A line a model: what became of it, parts, worst difference. Goes on where an
earlier run ended. Needs torch, timm and transformers. With --gpu plans run on it in the reference's place.
"""

import argparse
import collections
import itertools
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import random
import re
import sys
import time
import traceback

FORK = multiprocessing.get_context("fork")  # what is imported once serves all; no library is open yet


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--seed", type=int, default=33)
    parser.add_argument("--names", default="", help="timm:NAME or transformers:NAME, instead of a random draw")
    parser.add_argument("--jobs", type=int, default=1, help="models at once, each in a process of its own")
    parser.add_argument("--seconds", type=float, default=500, help="after which no model is begun")
    parser.add_argument("--limit", type=float, default=300, help="seconds of a model")
    parser.add_argument("--gpu", action="store_true")
    arguments = parser.parse_args()
    until = time.time() + arguments.seconds
    import_all()
    done = {}
    if arguments.out.exists():
        rows = [line.rstrip("\n").split("\t") for line in arguments.out.read_text().splitlines() if not line.startswith("#")]
        done = {row[0]: row for row in rows if len(row) == 5 and row[1] != "not done"}
    wanted = arguments.names.split(",") if arguments.names else drawn(arguments.models, arguments.seed)
    waiting = [name for name in wanted if name not in done]
    running = []
    while waiting and time.time() < until or running:
        while waiting and len(running) < arguments.jobs and time.time() < until:
            running.append(Running(waiting.pop(0), arguments))
        left = min(model.until for model in running) - time.time()
        multiprocessing.connection.wait([model.answer for model in running], max(0, left))
        for model in [model for model in running if model.ended()]:
            running.remove(model)
            done[model.name] = model.row()
            write(arguments.out, done)
            print("\t".join(done[model.name]), flush=True)
    write(arguments.out, done)
    print(summary(done))


class Running:
    """A model in a process of its own."""

    def __init__(self, name, arguments):
        self.name, self.limit, self.until = name, arguments.limit, time.time() + arguments.limit
        self.answer, own = FORK.Pipe(duplex=False)
        self.process = FORK.Process(target=run, args=(name, own, arguments.gpu))
        self.process.start()
        own.close()

    def ended(self):
        return self.answer.poll() or time.time() >= self.until

    def row(self):
        try:
            found = self.answer.recv() if self.answer.poll() else (self.name, "not done", "0", "-", f"no answer within {self.limit:.0f} s")
        except EOFError:
            self.process.join()
            found = self.name, "crash", "0", "-", f"its process ended with {self.process.exitcode}"
        self.process.kill()
        self.process.join()
        self.answer.close()
        return found


def import_all():
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # whether there is a GPU: asked without opening it, as processes are forked
    import timm  # noqa: F401
    import torch._inductor.compile_fx  # noqa: F401
    import transformers  # noqa: F401
    from transformers.models.auto import modeling_auto  # noqa: F401

    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bindings/python"))
    import graphs  # noqa: F401


def drawn(count, seed):
    """Names by chance, of both libraries alternately."""
    import timm
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    by_chance = random.Random(seed)
    small = [name for name in timm.list_models() if not LARGE.search(name)]
    images = by_chance.sample([f"timm:{name}" for name in small], (count + 1) // 2)
    others = by_chance.sample([f"transformers:{name}" for name in MODEL_MAPPING_NAMES], count // 2)
    return [name for pair in itertools.zip_longest(images, others) for name in pair if name is not None]


#: Sizes of a family that take minutes here and have the graphs of its small ones.
LARGE = re.compile("[0-9]{3}m_|[1-9]b_|huge|giant|gigant|enormous|large|xl|_h_|_g_|_l_|so[0-9]+m|[0-9]{3}_?384|_b[4-9]|384|448|512|_[3-9][0-9]{2}d?_|[0-9]g_")
#: Small extents by the names that configurations give them; what a configuration lacks is not set.
SMALL = dict(
    hidden_size=64, d_model=64, n_embd=64, dim=64, embedding_size=64, embed_dim=64, intermediate_size=128, d_ff=128, n_inner=128, ffn_dim=128,
    hidden_dim=128, encoder_ffn_dim=128, decoder_ffn_dim=128, num_hidden_layers=2, n_layer=2, n_layers=2, num_layers=2, depth=2,
    encoder_layers=2, decoder_layers=2, num_attention_heads=4, n_head=4, n_heads=4, num_heads=4, encoder_attention_heads=4,
    decoder_attention_heads=4, num_key_value_heads=2, head_dim=16, d_kv=16, vocab_size=512, max_position_embeddings=128,
    n_positions=128, moe_intermediate_size=64, use_cache=False, pad_token_id=0, image_size=64,
)
MOST_PARAMETERS = 200_000_000  # of a model whose sizes have other names


def build(name):
    """(model in bf16, inputs)."""
    import torch

    kind, _, name = name.partition(":")
    torch.manual_seed(1)
    if kind == "timm":
        import timm

        model = timm.create_model(name)
        size = model.pretrained_cfg.get("input_size", (3, 224, 224))
        side = size[1] if model.pretrained_cfg.get("fixed_input_size", False) else min(size[1], 64)
        return model.eval().bfloat16(), (torch.randn(1, size[0], side, side).bfloat16(),)
    from transformers import CONFIG_MAPPING, AutoModel

    config = shrunk(CONFIG_MAPPING[name]())
    with torch.device("meta"):
        size = sum(p.numel() for p in AutoModel.from_config(config).parameters())
    if size > MOST_PARAMETERS:
        raise ValueError(f"{size / 1e6:.0f} million parameters")
    model = AutoModel.from_config(config, dtype=torch.bfloat16).eval()
    return model_with_inputs(model, config)


def shrunk(config):
    """With small extents, also of the configurations in it."""
    from transformers import PretrainedConfig

    for field, value in vars(config).items():
        if isinstance(value, PretrainedConfig):
            shrunk(value)
    for field, value in SMALL.items():
        if isinstance(getattr(config, field, None), (int, type(None))) and hasattr(config, field):
            try:
                setattr(config, field, value)
            except (AttributeError, NotImplementedError, TypeError):
                pass
    if isinstance(vars(config).get("layer_types"), list):
        config.layer_types = config.layer_types[:2]
    return config


def model_with_inputs(model, config):
    """(module of tensors, inputs), by the kind of input that the model names first."""
    import torch

    name = model.main_input_name
    side, channels = getattr(config, "image_size", 64), getattr(config, "num_channels", 3)
    side = side if isinstance(side, int) else 64
    shapes = {"pixel_values": (1, channels, side, side), "input_values": (1, 4000), "input_features": (1, getattr(config, "num_mel_bins", 80), 3000)}
    given = {name: torch.randn(shapes[name]).bfloat16() if name in shapes else torch.randint(0, 500, (2, 16))}
    if config.is_encoder_decoder and name == "input_ids":
        given["decoder_input_ids"] = torch.randint(0, 500, (2, 16))

    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *inputs):
            result = self.model(**dict(zip(given, inputs)))
            return result[0] if not isinstance(result, torch.Tensor) else result

    return Named(), tuple(given.values())


def run(name, answer, gpu):
    try:
        answer.send(verdict(name, "cuda" if gpu else "cpu"))
    except BaseException as error:
        told, at = (str(error).strip().splitlines() or [""])[0], traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(at.filename)}:{at.lineno}"
        answer.send((name, "crash", "0", "-", f"{type(error).__name__} in {where}: {told}"[:300].replace("\t", " ")))


def verdict(name, device):
    import torch

    torch.set_num_threads(1)
    torch.backends.mkldnn.set_flags(False)  # whose bf16 convolutions are wrong where windows lie side by side (torch 2.11)
    from graphs import passed
    from sinter.torch.runtime import verify

    try:
        model, inputs = build(name)
        model, inputs = model.to(device), [x.to(device) for x in inputs]
        with torch.no_grad():
            model(*inputs)
    except Exception as error:  # the model itself, not what is tested
        return name, "no model", "0", "-", f"{type(error).__name__}: {error}"[:120].replace("\t", " ").replace("\n", " ")
    with torch.no_grad():
        compiled, reports = passed(model, {"target": None, "prepare": "block"} if device == "cuda" else None)
        compiled(*inputs)
    wrong = [c for c in verify.comparisons if not c.within]
    worst = max((c.difference for c in verify.comparisons), default=0.0)
    left = collections.Counter(short(why) for report in reports for _, why in report.left)
    parts = sum(len(report.taken) for report in reports)
    work = sum(report.nodes for report in reports)
    kept = sum(left.values())
    told = "; ".join(f"{why} {count}" for why, count in left.most_common(6))
    state = f"wrong: {wrong[0].name}" if wrong else "right"
    return name, state, f"{parts} of {work - kept}/{work} ops", f"{worst:.1e}", told


def short(why):
    """A reason without the numbers of one graph."""
    if "NO_LEGAL_PLAN" in why:
        why = why.split("): ")[-1] if "): " in why else why
        return "refused: " + why[:60]
    return "its extents are no rows of M" if "are no rows of" in why else why[:60]


def summary(done):
    states = collections.Counter(row[1].split(":")[0] for row in done.values())
    return f"{len(done)} models: " + ", ".join(f"{count} {state}" for state, count in states.most_common())


def write(path, done):
    head = f"# {summary(done)}\n# model\tverdict\tparts of taken/all ops\tworst relative difference\tleft to Inductor, by reason\n"
    path.write_text(head + "".join("\t".join(row) + "\n" for row in done.values()))


if __name__ == "__main__":
    main()
