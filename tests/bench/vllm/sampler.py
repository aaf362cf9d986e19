#!/usr/bin/env python3
"""A step of vLLM's decoding by its own sampler, by FlashInfer's and by the plugin's plans, in one engine, in turns. Needs vLLM and a Hopper GPU.

Usage: sampler.py --out FILE.json [--model Qwen3-8B] [--layers N] [--rows 1,8,32,128] [--turns 4] [--seconds 300]

Weights are random, and the plugin computes nothing but the draw. FlashInfer takes part where it can be imported; vLLM uses it by default. It draws
only by top_k or top_p. A step is the difference of two calls of LLM.generate, of 65 tokens and of one, over 64. Tokens of greedy
requests are compared with vLLM's.
"""

import argparse
import dataclasses
import json
import os
import random
import statistics
import sys
import tempfile
import time

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_ALLOW_INSECURE_SERIALIZATION="1", VLLM_PLUGINS="", VLLM_USE_FLASHINFER_SAMPLER="0")

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "decode"), os.path.dirname(HERE)]

import formats  # noqa: E402
import rows_file  # noqa: E402
import source_state  # noqa: E402
import throughput  # noqa: E402
from models import ALL  # noqa: E402

#: What requests ask for; the first as Qwen3's generation_config does.
ASKED = {"top_k 20, top_p 0.95": {"temperature": 0.6, "top_k": 20, "top_p": 0.95}, "greedy": {"temperature": 0.0}, "temperature": {"temperature": 1.0}}

STEPS = 64
PROMPT = 64


class Engine:
    """An engine whose sampler can be exchanged."""

    def __init__(self, model, rows, folder):
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(throughput.config(model), file)
        from sinter.torch import servers
        from sinter_vllm import _sampler
        from vllm import LLM
        from vllm.v1.worker.gpu.sample import sampler

        self._place = sampler.Sampler
        self._own = sampler.Sampler.sample
        _sampler.watch(servers, "vllm.sinter")
        self._ours = sampler.Sampler.sample
        self._llm = LLM(model=folder, load_format="dummy", skip_tokenizer_init=True, seed=1, enable_prefix_caching=False,
                        max_model_len=PROMPT + STEPS + 2, max_num_seqs=rows[-1], kv_cache_memory_bytes=16 << 30, gpu_memory_utilization=0.5,
                        compilation_config={"cudagraph_capture_sizes": rows})
        self._llm.apply_model(lambda one: formats.fill(one, ""))
        runner = self._llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner
        self._sampler = runner.sampler
        self.refused = 0
        draw = servers.draw_tokens

        def counted(*given, **named):
            made = draw(*given, **named)
            self.refused += made is None
            return made

        servers.draw_tokens = counted
        self._vocabulary = model.vocabulary

    def use(self, who):
        self._place.sample = self._ours if who == "sinter" else self._own
        self._sampler.use_flashinfer = who == "flashinfer"

    def generate(self, rows, asked, new):
        """Seconds of a call, and the tokens of each request."""
        from vllm import SamplingParams

        draw = random.Random(rows)
        prompts = [{"prompt_token_ids": [draw.randrange(10, self._vocabulary - 10) for _ in range(PROMPT)]} for _ in range(rows)]
        params = SamplingParams(max_tokens=new, ignore_eos=True, detokenize=False, **asked)
        begin = time.perf_counter()
        made = self._llm.generate(prompts, params, use_tqdm=False)
        return time.perf_counter() - begin, [list(one.outputs[0].token_ids) for one in made]

    def wait_for_plans(self, rows, asked):
        """Generates until plans draw all tokens."""
        self.use("sinter")
        end = time.monotonic() + 60
        while time.monotonic() < end:
            self.refused = 0
            self.generate(rows, asked, 4)
            if self.refused == 0:
                return
        raise RuntimeError(f"no plan draws for {rows} rows with {asked}")


def has_flashinfer():
    try:
        import flashinfer.sampling  # noqa: F401
    except ImportError:
        return False
    return True


def measure(engine, rows, name, contestants, turns):
    asked = ASKED[name]
    engine.wait_for_plans(rows, asked)
    seconds, tokens = {who: [] for who in contestants}, {}
    for turn in range(turns + 1):  # the first one warms up
        for who in contestants:
            engine.use(who)
            one, _ = engine.generate(rows, asked, 1)
            whole, tokens[who] = engine.generate(rows, asked, STEPS + 1)
            if turn:
                seconds[who].append((whole - one) / STEPS)
    row = {"rows": rows, "asked": name, "step_us": {who: statistics.median(of) * 1e6 for who, of in seconds.items()}}
    if name == "greedy":
        pairs = [(a, b) for x, y in zip(tokens["vllm"], tokens["sinter"]) for a, b in zip(x, y)]
        row["equal_tokens"] = sum(a == b for a, b in pairs) / len(pairs)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True)
    parser.add_argument("--model", default="Qwen3-8B", choices=sorted(ALL))
    parser.add_argument("--layers", type=int)
    parser.add_argument("--rows", default="1,8,32,128", type=lambda text: [int(one) for one in text.split(",")])
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=300)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    model = ALL[options.model]
    model = dataclasses.replace(model, layers=options.layers or model.layers)
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(model, sorted(options.rows), folder)
        import torch
        import vllm

        contestants = ["vllm", *(["flashinfer"] if has_flashinfer() else []), "sinter"]
        header = {"gpu": torch.cuda.get_device_name(), "vllm": vllm.__version__, "torch": torch.__version__, **source_state.of_library(),
                  "model": options.model, "layers": model.layers, "vocabulary": model.vocabulary, "turns": options.turns}
        measured = []
        for rows in options.rows:
            for name, asked in ASKED.items():
                if time.monotonic() > end:
                    print(f"no time for {rows} rows, {name}", flush=True)
                    continue
                able = [who for who in contestants if who != "flashinfer" or "top_k" in asked]
                measured.append(measure(engine, rows, name, able, options.turns))
                print(measured[-1], flush=True)
                rows_file.write(options.out, {**header, "rows": measured})


if __name__ == "__main__":
    main()
