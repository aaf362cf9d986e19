#!/usr/bin/env python3
"""vLLM's own `vllm bench latency` and `vllm bench throughput` without and with the plugin sinter-gpu-vllm, in turns, on one GPU.

Usage: own_benches.py --out FILE.json --model Llama-3-8B [--rounds 2] [--wait FILE] ..    environment as for throughput.py

Each contestant is a process that keeps one engine, with all layers and random weights, and calls the `main` of vLLM's bench with it: their arguments,
their measuring, their figures. Only ``LLM.from_engine_args`` differs, which returns the engine that is there. The tokenizer, which the bench of
throughput wants, is made here: a word for each token. Ends with 0, or 1 when an engine failed.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "decode"), os.path.dirname(HERE), HERE]

HOWS = {"vllm": "", "sinter": "sinter"}

#: Models by architectures.jsonl, with all layers and their vocabulary.
MODELS = {"Llama 3 8B": {"num_hidden_layers": 32, "vocab_size": 128256}, "Granite 3 8B": {"num_hidden_layers": 40, "vocab_size": 49152},
          "Qwen 3 8B": {"num_hidden_layers": 36, "vocab_size": 151936}, "GLM-4 9B 0414": {"num_hidden_layers": 40, "vocab_size": 151552}}

#: What an engine is told: vLLM's defaults, but for fewer graphs, which are ready sooner.
ENGINE = ["--load-format", "dummy", "--max-model-len", "2048", "--max-num-seqs", "128", "--no-enable-prefix-caching", "--seed", "1", "--gpu-memory-utilization", "0.3",
          "--kv-cache-memory-bytes", str(24 << 30), "--compilation-config", json.dumps({"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64, 128]})]

#: The benches: name, arguments.
BENCHES = {
    "latency 1": ["latency", "--batch-size", "1"], "latency 8": ["latency", "--batch-size", "8"], "latency 32": ["latency", "--batch-size", "32"],
    "throughput": ["throughput", "--dataset-name", "random", "--random-input-len", "256", "--random-output-len", "128", "--num-prompts", "256"],
}
LATENCY = ["--input-len", "128", "--output-len", "128", "--num-iters-warmup", "1", "--num-iters", "3"]


def write_model(folder, name, more=None):
    """config.json, with the fields `more`, and a tokenizer of as many words as the model has tokens."""
    import architecture_engine as engines
    from tokenizers import Tokenizer, models, pre_tokenizers

    row = next(one for one in engines.read(os.path.join(HERE, "architectures.jsonl")) if one["name"] == name)
    content = {**engines.config(row), **MODELS[name], **(more or {})}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(content, file)
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(content["vocab_size"])}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "w1", "eos_token": "w2", "unk_token": "w0", "pad_token": "w0"}, file)


def serve(folder):
    """The process of a contestant: runs the bench that each line names, and answers with what the bench wrote."""
    import vllm
    from vllm.benchmarks import latency, throughput
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    own, kept = vllm.LLM.from_engine_args.__func__, []

    def from_engine_args(cls, arguments):
        if not kept:
            kept.append(own(cls, arguments))
        return kept[0]

    vllm.LLM.from_engine_args = classmethod(from_engine_args)
    out = os.path.join(folder, "out.json")

    def run(kind, *more):
        bench = {"latency": latency, "throughput": throughput}[kind]
        parser = FlexibleArgumentParser()
        bench.add_cli_args(parser)
        bench.main(parser.parse_args(["--model", folder, *ENGINE, *more, *(LATENCY if kind == "latency" else ()), "--output-json", out]))
        with open(out, encoding="utf-8") as file:
            return json.load(file)

    begin = time.perf_counter()
    run("latency", "--batch-size", "2")
    print("RESULT", json.dumps({"ready_s": time.perf_counter() - begin}), flush=True)
    for line in sys.stdin:
        kind, *more = BENCHES[line.strip()]
        print("RESULT", json.dumps(run(kind, *more)), flush=True)


class Contestant:
    def __init__(self, how, folder, stop, gpu):
        self.how, self.log = how, os.path.join(folder, f"{how}.log")
        place = os.path.join(folder, how)
        os.makedirs(place)
        environment = {**os.environ, "VLLM_PLUGINS": HOWS[how], "VLLM_CACHE_ROOT": os.path.join(place, "cache"), "VLLM_NO_USAGE_STATS": "1"}
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--serve", folder], env=environment, text=True, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=log, start_new_session=True)
        if stop:
            with open(os.path.join(stop, f"{gpu}-{self.process.pid}"), "w", encoding="utf-8"):
                pass

    def answer(self):
        for line in self.process.stdout:
            if line.startswith("RESULT "):
                return json.loads(line[7:])
        raise RuntimeError(f"{self.how} ended with {self.process.wait()}")

    def measure(self, bench):
        self.process.stdin.write(f"{bench}\n")
        self.process.stdin.flush()
        return self.answer()

    def told(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip()[:300] for line in file]
        return [line for line in lines if "sinter" in line.lower() or "Error" in line][-8:] + lines[-3:]

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def figure(bench, result):
    """Seconds of a call (latency: the mean, as the bench says) or tokens a second (throughput: input and output, as the bench says)."""
    return result["avg_latency"] if bench.startswith("latency") else result["tokens_per_second"]


def compare(figures):
    """{bench: {how: median, ratio: with the plugin, how many times as fast}}."""
    found = {}
    for bench, of in figures.items():
        middle = {how: statistics.median(values) for how, values in of.items() if values}
        if len(middle) == len(HOWS):
            own, ours = middle["vllm"], middle["sinter"]
            middle["ratio"] = own / ours if bench.startswith("latency") else ours / own
        found[bench] = middle
    return found


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--out", help="results file")
    parser.add_argument("--model", choices=list(MODELS), default="Llama 3 8B")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each contestant; the median counts")
    parser.add_argument("--limit", type=float, default=3600, help="seconds after which no further bench begins")
    parser.add_argument("--wait", help="measures once this file is there")
    parser.add_argument("--stop", help="folder for files that name the process groups: architectures.py stops them while it measures")
    parser.add_argument("--gpu", default="0")
    options = parser.parse_args(arguments)
    if options.serve:
        return serve(options.serve)
    begin, result = time.monotonic(), {"model": options.model, "engine": ENGINE, "latency": LATENCY, "benches": BENCHES, "ready_s": {}, "figures": {}, "compared": {}, "failures": []}

    def save():
        result["compared"] = compare(result["figures"])
        with open(options.out + ".part", "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
        os.replace(options.out + ".part", options.out)

    with tempfile.TemporaryDirectory() as folder:
        write_model(folder, options.model)
        all_of_them = [Contestant(how, folder, options.stop, options.gpu) for how in HOWS]
        try:
            for one in all_of_them:
                result["ready_s"][one.how] = one.answer()["ready_s"]
                print(f"{time.monotonic() - begin:6.1f} s  {options.model} {one.how} is ready", flush=True)
            while options.wait and not os.path.exists(options.wait):
                time.sleep(0.2)
            for _ in range(options.rounds):
                for bench in BENCHES:
                    for one in all_of_them:
                        if time.monotonic() - begin > options.limit:
                            continue
                        value = figure(bench, one.measure(bench))
                        result["figures"].setdefault(bench, {}).setdefault(one.how, []).append(value)
                        print(f"{time.monotonic() - begin:6.1f} s  {options.model} {bench:12} {one.how:7} {value:.4f}", flush=True)
                        save()
        except RuntimeError as error:
            result["failures"].append(str(error))
        result["logs"] = {one.how: one.told() for one in all_of_them}
        for one in all_of_them:
            one.end()
    save()
    for bench, of in result["compared"].items():
        print(options.model, bench, json.dumps(of))
    for why in result["failures"]:
        print("FAILED", why, *(line for lines in result["logs"].values() for line in lines), sep="\n   ")
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
