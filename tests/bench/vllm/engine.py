#!/usr/bin/env python3
"""One vLLM engine with random weights, driven by lines on its standard input; throughput.py starts it.

Usage: engine.py CONFIG.json. The keys are `folder`, with a model's config.json, `rows`, the numbers of sequences that are decoded
together, `context`, `new`, `prompts`, the lengths of prompts that are prefilled, `scores`, of prompts after which tokens are scored, `ranks`,
the GPUs of the engine, `format`, a name in formats.py or empty, `engine` (more arguments of vllm.LLM, which may also take the place of those
here). A line `R` decodes R sequences and is answered by a line of JSON after the word RESULT; the first answer says that it is ready,
whether norms are folded, how many layers the plugin took, and how many matrices have codes. Seconds are those of a whole call of
LLM.generate; with `one` of the same prompts and a single token each, which is prefill. A line `R LENGTH` makes a single token of each of R
prompts of that length; `score R LENGTH` tells the most probable tokens after each of them.
"""

import json
import sys
import time

import formats

#: Tokens of all prompts of one length whose prefill a second is measured.
TOKENS = 32768

#: The most probable tokens of which `score` tells the log probability.
TOP = 20


def make(options):
    from vllm import LLM

    rows = sorted(options["rows"])
    longest = max([options["context"] + options["new"], *(length + 1 for length in options["prompts"] + options["scores"])])
    most = max([rows[-1], *(TOKENS // length for length in options["prompts"])])
    own = {"max_model_len": longest, "max_num_seqs": most, "gpu_memory_utilization": 0.25, "tensor_parallel_size": options["ranks"],
           "kv_cache_memory_bytes": 8 << 30,  # as given: engines that start side by side cannot measure what is free
           "compilation_config": {"cudagraph_capture_sizes": rows}}
    return LLM(model=options["folder"], load_format="dummy", skip_tokenizer_init=True, seed=1, enable_prefix_caching=False,
               **{**own, **options["engine"]})


def prompts(rows, length, vocabulary):
    """The same of every engine."""
    import random

    draw = random.Random(rows)
    return [{"prompt_token_ids": [draw.randrange(10, vocabulary - 10) for _ in range(length)]} for _ in range(rows)]


def decode(llm, rows, options, new, length=None):
    from vllm import SamplingParams

    asked = prompts(rows, length or options["context"], options["vocabulary"])
    begin = time.perf_counter()
    made = llm.generate(asked, SamplingParams(temperature=0, max_tokens=new, ignore_eos=True, detokenize=False), use_tqdm=False)
    seconds = time.perf_counter() - begin
    return seconds, [list(one.outputs[0].token_ids) for one in made]


def score(llm, rows, options, length):
    """{token: log probability} of the most probable tokens after each of `rows` prompts, each computed by itself."""
    from vllm import SamplingParams

    asked = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True, detokenize=False, logprobs=TOP)
    found = []
    for prompt in prompts(rows, length, options["vocabulary"]):
        (made,) = llm.generate([prompt], asked, use_tqdm=False)
        found.append({token: one.logprob for token, one in made.outputs[0].logprobs[0].items()})
    return found


def warm(llm, options, seconds=20):
    """Prefills each length for some time: plans of many rows are made in the background after the first calls that ask for them."""
    end = time.monotonic() + seconds * bool(options["prompts"])
    while time.monotonic() < end:
        for length in options["prompts"]:
            decode(llm, 1, options, 1, length)


def is_folded(model):
    """Whether the plugin multiplied norms into matrices. Runs where the model is."""
    return any(getattr(part, "sinter_folded", False) for part in model.modules())


def layers(model):
    """Layers that the plugin computes. Runs where the model is."""
    package = sys.modules.get("sinter.torch")
    return package.counts().layers if package else 0


def ask(llm, function):
    """The largest result of a function of the model, of all ranks; None where vLLM does not let its model be asked."""
    try:
        return max(llm.apply_model(function))
    except Exception as error:
        print(f"cannot ask the model by {function.__name__}: {error}", file=sys.stderr)
        return None


def machine():
    import torch
    import vllm
    from vllm.platforms import current_platform

    return {"gpu": current_platform.get_device_name(), "vllm": vllm.__version__, "torch": torch.__version__}


def answer(word, content):
    print(word, json.dumps(content), flush=True)


def main(path):
    with open(path, encoding="utf-8") as file:
        options = json.load(file)
    begin = time.perf_counter()
    llm = make(options)
    form = options["format"]
    coded = max(llm.apply_model(lambda model: formats.fill(model, form))) if form else 0
    decode(llm, 1, options, 4)
    warm(llm, options)
    answer("RESULT", {"ready_s": time.perf_counter() - begin, "machine": machine(), "folded": ask(llm, is_folded), "layers": ask(llm, layers),
                      "coded": coded})
    for line in sys.stdin:
        *word, rows, length = line.split() if " " in line else (line, "0")
        rows, length = int(rows), int(length)
        if word:
            answer("RESULT", {"scores": score(llm, rows, options, length)})
        elif length:
            answer("RESULT", {"seconds": min(decode(llm, rows, options, 1, length)[0] for _ in range(5))})
        else:
            one, _ = decode(llm, rows, options, 1)
            seconds, tokens = decode(llm, rows, options, options["new"])
            answer("RESULT", {"one_s": one, "seconds": seconds, "tokens": tokens})


if __name__ == "__main__":
    main(sys.argv[1])
