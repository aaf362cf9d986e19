#!/usr/bin/env python3
"""Models that nobody picked, small, on the CPU: each part that the backend takes is computed by the reference beside torch's operators.

    python3 tests/bench/torch_backend/sweep.py OUT.tsv [--models N] [--seed S] [--share I/N] [--seconds S]

Draws from timm.list_models() and from transformers' configurations, builds them with random weights of few layers, and runs
Inductor's graphs node by node behind the pass. A line a model: what became of it, parts, worst difference. Goes on where an
earlier run ended. Needs torch, timm and transformers; no GPU.
"""

import argparse
import collections
import multiprocessing
import pathlib
import random
import re
import sys
import time
import traceback

MODEL_SECONDS = 300
FORK = multiprocessing.get_context("fork")  # what is imported once serves all; no library is open yet


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--seed", type=int, default=33)
    parser.add_argument("--share", default="0/1", help="I/N: every Nth model from the Ith, for N runs at once, each with its OUT")
    parser.add_argument("--seconds", type=float, default=500)
    arguments = parser.parse_args()
    began = time.time()
    import_all()
    done = {}
    if arguments.out.exists():
        rows = [line.rstrip("\n").split("\t") for line in arguments.out.read_text().splitlines() if not line.startswith("#")]
        done = {row[0]: row for row in rows if len(row) == 5}
    first, step = map(int, arguments.share.split("/"))
    for name in drawn(arguments.models, arguments.seed)[first::step]:
        if name in done:
            continue
        if time.time() - began > arguments.seconds:
            break
        row = in_a_process(name)
        done[name] = row
        write(arguments.out, done)
        print("\t".join(row), flush=True)
    write(arguments.out, done)
    print(summary(done))


def import_all():
    import timm  # noqa: F401
    import torch._inductor.compile_fx  # noqa: F401
    import transformers  # noqa: F401

    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "bindings/python"))
    import graphs  # noqa: F401


def drawn(count, seed):
    import timm

    small = [name for name in timm.list_models() if not LARGE.search(name)]
    images = [f"timm:{name}" for name in random.Random(seed).sample(small, count)]
    texts = [f"transformers:{name}" for name in CONFIGS]
    mixed = [name for pair in zip(images, texts) for name in pair] + images[len(texts) :]
    return mixed[:count]


#: Sizes of a family that take minutes here and have the graphs of its small ones.
LARGE = re.compile("huge|giant|gigant|enormous|large|xl|_h_|_g_|_l_|so[0-9]+m|[0-9]{3}_?384|_b[4-9]|384|448|512|_[3-9][0-9]{2}d?_|[0-9]g_")
#: Small extents by the names that configurations give them; what a configuration lacks is not set.
SMALL = dict(
    hidden_size=64, d_model=64, n_embd=64, dim=64, embedding_size=64, intermediate_size=128, d_ff=128, n_inner=128, ffn_dim=128,
    hidden_dim=128, encoder_ffn_dim=128, decoder_ffn_dim=128, num_hidden_layers=2, n_layer=2, n_layers=2, num_layers=2,
    encoder_layers=2, decoder_layers=2, num_attention_heads=4, n_head=4, n_heads=4, num_heads=4, encoder_attention_heads=4,
    decoder_attention_heads=4, num_key_value_heads=2, head_dim=16, d_kv=16, vocab_size=512, max_position_embeddings=128,
    n_positions=128, use_cache=False, pad_token_id=0,
)
CONFIGS = (
    "Bert Roberta DistilBert Electra Albert Deberta DebertaV2 MPNet MobileBert SqueezeBert XLMRoberta Camembert Ernie RoFormer "
    "Nystromformer ConvBert Funnel FNet ModernBert GPT2 GPTNeo GPTNeoX GPTJ OPT Bloom Falcon Llama Mistral Qwen2 Qwen3 Gemma "
    "Gemma2 Phi Phi3 StableLm Starcoder2 Olmo Olmo2 Cohere Granite Persimmon Mixtral Qwen2Moe Mamba CodeGen XGLM Helium GLM"
).split()


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
    import transformers

    config = getattr(transformers, f"{name}Config")
    given = config()
    for field, value in SMALL.items():
        if hasattr(given, field):
            try:
                setattr(given, field, value)
            except (AttributeError, NotImplementedError, TypeError):
                pass
    if getattr(given, "layer_types", None) and "layer_types" in vars(given):
        given.layer_types = given.layer_types[:2]
    model = getattr(transformers, f"{name}Model")(given)
    return model.eval().bfloat16(), (torch.randint(0, 500, (2, 16)),)


def in_a_process(name):
    queue = FORK.Queue()
    process = FORK.Process(target=run, args=(name, queue))
    process.start()
    try:
        row = queue.get(timeout=MODEL_SECONDS)
    except Exception:
        row = (name, "not done", "0", "-", f"no answer within {MODEL_SECONDS} s")
    process.kill()
    process.join()
    return row


def run(name, queue):
    try:
        queue.put(verdict(name))
    except BaseException as error:
        told = traceback.format_exc().strip().splitlines()[-1]
        queue.put((name, "crash", "0", "-", f"{type(error).__name__}: {told}"[:300].replace("\t", " ")))


def verdict(name):
    import torch

    torch.set_num_threads(1)
    from graphs import passed
    from sinter.torch import _verify

    try:
        model, inputs = build(name)
        with torch.no_grad():
            model(*inputs)
    except Exception as error:  # the model itself, not what is tested
        return name, "no model", "0", "-", f"{type(error).__name__}: {error}"[:120].replace("\t", " ").replace("\n", " ")
    with torch.no_grad():
        compiled, reports = passed(model)
        compiled(*inputs)
    wrong = [c for c in _verify.comparisons if not c.within]
    worst = max((c.difference for c in _verify.comparisons), default=0.0)
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
