#!/usr/bin/env python3
"""One vLLM engine with random weights, driven by lines on its standard input; throughput.py starts it.

Usage: engine.py CONFIG.json. The keys are `folder`, with a model's config.json, `rows`, the numbers of sequences that are decoded
together, `context`, `new`, `engine` (more arguments of vllm.LLM). A line `R` decodes R sequences and is answered by a line of JSON
behind the word RESULT; the first answer says that it is ready, and whether norms are folded. Seconds are those of a whole call of LLM.generate; with `one` of the same
prompts and a single token each, which is prefill.
"""

import json
import sys
import time


def make(options):
    from vllm import LLM

    rows = sorted(options["rows"])
    return LLM(model=options["folder"], load_format="dummy", skip_tokenizer_init=True, seed=1, enable_prefix_caching=False,
               max_model_len=options["context"] + options["new"], max_num_seqs=rows[-1], gpu_memory_utilization=0.25,
               kv_cache_memory_bytes=8 << 30,  # as given: engines that start side by side cannot measure what is free
               compilation_config={"cudagraph_capture_sizes": rows}, **options.get("engine", {}))


def prompts(rows, length, vocabulary):
    """The same of every engine."""
    import random

    draw = random.Random(rows)
    return [{"prompt_token_ids": [draw.randrange(10, vocabulary - 10) for _ in range(length)]} for _ in range(rows)]


def decode(llm, rows, options, new):
    from vllm import SamplingParams

    asked = prompts(rows, options["context"], options["vocabulary"])
    begin = time.perf_counter()
    made = llm.generate(asked, SamplingParams(temperature=0, max_tokens=new, ignore_eos=True, detokenize=False), use_tqdm=False)
    seconds = time.perf_counter() - begin
    return seconds, [list(one.outputs[0].token_ids) for one in made]


def is_folded(model):
    """Whether the plugin multiplied norms into matrices. Runs where the model is."""
    return any(getattr(part, "sinter_folded", False) for part in model.modules())


def folded(llm):
    """Whether norms are folded; None where vLLM does not let its model be asked."""
    try:
        return any(llm.apply_model(is_folded))
    except Exception as error:
        print("cannot tell whether norms are folded:", error, file=sys.stderr)
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
    decode(llm, 1, options, 4)
    answer("RESULT", {"ready_s": time.perf_counter() - begin, "machine": machine(), "folded": folded(llm)})
    for line in sys.stdin:
        rows = int(line)
        one, _ = decode(llm, rows, options, 1)
        seconds, tokens = decode(llm, rows, options, options["new"])
        answer("RESULT", {"one_s": one, "seconds": seconds, "tokens": tokens})


if __name__ == "__main__":
    main(sys.argv[1])
