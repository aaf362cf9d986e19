#!/usr/bin/env python3
"""From logits to a token: next_token and PyTorch's operators, in CUDA graphs that are replayed in turns.

Usage: tokens.py [--vocabulary 151936] [--hidden 0] [--rows 1,8,32,128] [--count 20] [--out FILE]. Needs a GPU and PyTorch.

With `--hidden K` the product with a head [vocabulary, K] is in every contestant. `eager` takes softmax, topk, cumsum and multinomial, as servers
without a sampler of their own do; `compile` is torch.compile of it. Logits are one buffer, in L2 up to 128 rows, as a product leaves them.
Tokens of a temperature of 0 must be a largest logit; the others must be among the largest.
"""

import argparse
import json
import pathlib

import turns

TEMPERATURE, TOP_P = 0.6, 0.95


def sinter_calls(sinter, torch, options, x, head, numbers, count):
    """Calls of a plan that draws from the `count` largest with top_p, or with count 0 from the whole row."""
    rows = x.shape[0]
    b = sinter.Builder()
    width = options.hidden or options.vocabulary
    states = b.input("bf16", (sinter.M, width))
    given = [head] if options.hidden else []
    logits = (states @ b.constant("bf16", (options.vocabulary, width)).T).cast("bf16") if options.hidden else states
    temperature = b.input("f32", (sinter.M,))
    draw = {"count": count, "top_p": b.input("f32", (sinter.M,))} if count > 0 else {}
    seed, offset = b.input("s64", ()), b.input("s64", ())
    token, _ = sinter.next_token(logits, seed, offset, temperature=temperature, **draw)
    plan = sinter.Context().prepare(b.finish(token), m=rows)
    print(plan.explain(), flush=True)
    numbers = [numbers["temperature"]] + ([numbers["top_p"]] if count > 0 else []) + [numbers["seed"], numbers["offset"]]
    tokens = torch.empty(rows, dtype=torch.int32, device="cuda")
    return [lambda: plan(x, *given, *numbers, out=tokens)]


def drawn_by_torch(torch, logits, temperature, top_p, count):
    """Top-k, top-p of them, and a draw, in the operators that torch has."""
    values, ids = torch.topk(logits.float(), count, dim=-1)
    shares = torch.softmax(values / temperature[:, None], dim=-1)
    before = torch.cumsum(shares, dim=-1) - shares
    shares = torch.where(before < top_p[:, None], shares, 0)
    return ids.gather(1, torch.multinomial(shares, 1))


def drawn_from_all(torch, logits, temperature):
    """The draw that needs no multinomial over the row: the least of exponential numbers by probability."""
    shares = torch.softmax(logits.float() / temperature[:, None], dim=-1)
    return (shares / torch.empty_like(shares).exponential_(1)).argmax(dim=-1)


def contestants(torch, sinter, options, rows):
    generator = torch.Generator("cuda").manual_seed(rows)
    width = options.hidden or options.vocabulary
    x = torch.randn(rows, width, dtype=torch.bfloat16, device="cuda", generator=generator) * 3
    head = torch.randn(options.vocabulary, width, dtype=torch.bfloat16, device="cuda", generator=generator) if options.hidden else None
    numbers = {"temperature": torch.full((rows,), TEMPERATURE, device="cuda"), "top_p": torch.full((rows,), TOP_P, device="cuda"),
               "seed": torch.tensor(7, device="cuda"), "offset": torch.tensor(0, device="cuda")}
    of = (lambda x: x @ head.T) if options.hidden else (lambda x: x)

    def eager(x):
        return drawn_by_torch(torch, of(x), numbers["temperature"], numbers["top_p"], options.count)

    def whole(x):
        return drawn_from_all(torch, of(x), numbers["temperature"])

    compiled, compiled_whole = (turns.compiled(torch, f, "compile") for f in (eager, whole))
    every = {
        "sinter": sinter_calls(sinter, torch, options, x, head, numbers, options.count),
        "sinter, whole row": sinter_calls(sinter, torch, options, x, head, numbers, 0),
        "eager": [lambda: eager(x)],
        "compile": [lambda: compiled(x)],
        "eager, whole row": [lambda: whole(x)],
        "compile, whole row": [lambda: compiled_whole(x)],
        "argmax": [lambda: of(x).argmax(dim=-1)],
    }
    if options.hidden:
        every["product"] = [lambda: of(x)]
    checked(every, of(x), numbers, options.count)
    return every


def checked(every, logits, numbers, count):
    """Draws are among the largest, and greedy ones the first of the largest."""
    kth = logits.topk(count, dim=-1).values[:, -1:]
    token = every["sinter"][0]().long().view(-1, 1)
    if not bool((logits.gather(1, token) >= kth).all()):
        raise SystemExit("a token of sinter is not among the largest logits")
    kept = numbers["temperature"].clone()
    numbers["temperature"].zero_()
    most = logits.max(dim=-1, keepdim=True).values
    for name in ("sinter", "sinter, whole row"):
        if not bool((logits.gather(1, every[name][0]().long().view(-1, 1)) == most).all()):
            raise SystemExit(f"a greedy token of {name} is not a largest logit")
    numbers["temperature"].copy_(kept)


def main():
    import torch
    import sinter

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vocabulary", type=int, default=151936)
    parser.add_argument("--hidden", type=int, default=0)
    parser.add_argument("--rows", default="1,8,32,128")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    results = {**turns.machine(torch), "vocabulary": options.vocabulary, "hidden": options.hidden, "count": options.count, "rows": {}}
    for rows in map(int, options.rows.split(",")):
        figures = turns.in_turns(torch, contestants(torch, sinter, options, rows))
        results["rows"][rows] = figures
        print(rows, "rows, us:", ", ".join(f"{name} {us}" for name, us in figures.items()), flush=True)
        torch.cuda.empty_cache()
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
