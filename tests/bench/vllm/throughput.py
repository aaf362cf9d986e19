#!/usr/bin/env python3
"""Tokens a second that vLLM outputs, with and without the plugin sinter-gpu-vllm, and with norms folded by it; or, for prompts, takes in.

Usage: throughput.py --out FILE.json [--models A,B] [--rows 1,8] ..    needs vLLM, sinter-gpu, sinter-gpu-vllm and a Hopper GPU

The engines of a model start at once and then measure in turns, each in a process of its own: the same prompts, the same random weights.
Ends with 0 when all was measured, 1 when an engine failed, 2 for a command line that is wrong.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "decode"), os.path.dirname(HERE)]

import rows_file  # noqa: E402
import scores  # noqa: E402
import source_state  # noqa: E402
from engine import TOKENS  # noqa: E402
from formats import FORMATS  # noqa: E402
from models import ALL  # noqa: E402

#: Contestants, and what is set in their environments: the plugins that vLLM loads, and whether it is asked to fold norms.
CONTESTANTS = {
    "vllm": {"VLLM_PLUGINS": "", "SINTER_VLLM_FOLD": "0"},
    "sinter": {"VLLM_PLUGINS": "sinter", "SINTER_VLLM_FOLD": "0"},
    "sinter-folded": {"VLLM_PLUGINS": "sinter", "SINTER_VLLM_FOLD": "1"},
}
DEFAULT = list(CONTESTANTS)

#: With --format int4: vLLM takes Machete on Hopper, whose order of weights no plan reads. These take Marlin.
CONTESTANTS.update({f"{name}-marlin": {**CONTESTANTS[name], "VLLM_DISABLED_KERNELS": "MacheteLinearKernel"} for name in ("vllm", "sinter")})

#: With a format: the same weights in 16 bits, without the plugin and with it.
PLAIN = {"vllm-bf16": "vllm", "sinter-bf16": "sinter"}
CONTESTANTS.update({name: CONTESTANTS[alike] for name, alike in PLAIN.items()})


def is_own(contestant):
    """Whether vLLM has no plugin."""
    return not CONTESTANTS[contestant]["VLLM_PLUGINS"]


def config(model, form=""):
    """What transformers knows such a model by. `form`: one of ``FORMATS``; "" for 16 bits."""
    kind, of_type, more = ("Qwen3", "qwen3", {}) if model.qk_norm else ("Llama", "llama", {})
    if model.experts:
        kind, of_type = f"{kind}Moe", f"{of_type}_moe"
        more = {"num_experts": model.experts, "num_experts_per_tok": model.top, "moe_intermediate_size": model.inner, "norm_topk_prob": True,
                "decoder_sparse_step": 1, "mlp_only_layers": []}
    return {
        "architectures": [f"{kind}ForCausalLM"], "model_type": of_type, **more, "hidden_size": model.hidden,
        "intermediate_size": model.inner, "num_hidden_layers": model.layers, "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads, "head_dim": model.head, "vocab_size": model.vocabulary, "rms_norm_eps": model.eps,
        "rope_theta": 500000.0, "hidden_act": "silu", "attention_bias": False, "max_position_embeddings": 32768,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2,
        **({"quantization_config": FORMATS[form]} if form else {}),
    }


class Engine:
    """A process of engine.py."""

    def __init__(self, folder, model, contestant, options):
        self.name, self.contestant, self.format = model.name, contestant, "" if contestant in PLAIN else options.format
        self.folded = self.layers = None
        place = os.path.join(folder, f"{model.name}-{contestant}")
        os.makedirs(place)
        with open(os.path.join(place, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config(model, self.format), file)
        asked = {"folder": place, "rows": options.rows, "context": options.context, "new": options.new, "prompts": options.prompts,
                 "scores": options.scores, "vocabulary": model.vocabulary, "ranks": options.ranks, "format": options.format,
                 "engine": json.loads(options.engine)}
        with open(os.path.join(place, "engine.json"), "w", encoding="utf-8") as file:
            json.dump(asked, file)
        # A cache of its own: what vLLM compiled for one contestant must not serve the other.
        # The last lets engine.py ask the model whether its norms are folded.
        environment = {**os.environ, **CONTESTANTS[contestant], "VLLM_CACHE_ROOT": os.path.join(place, "cache"),
                       "SINTER_METRICS_FILE": os.path.join(place, "%p.prom"), "VLLM_NO_USAGE_STATS": "1",
                       "VLLM_ALLOW_INSECURE_SERIALIZATION": "1", **({"SINTER_PREFILL_ROWS": "8192"} if options.prompts else {})}
        self.place, self.log = place, os.path.join(options.logs or place, f"{model.name}-{contestant}.log")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, os.path.join(HERE, "engine.py"), os.path.join(place, "engine.json")], env=environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    def __str__(self):
        return f"{self.name} {self.contestant}"

    def answer(self):
        """The next result.

        Raises:
            RuntimeError: the process ended.
        """
        for line in self.process.stdout:
            if line.startswith("RESULT "):
                return json.loads(line[7:])
            with open(self.log, "a", encoding="utf-8") as file:
                file.write(line)
        self.process.communicate()
        raise RuntimeError(f"{self} ended with {self.process.returncode}: see {self.log}")

    def measure(self, *asked):
        """What engine.py answers to a line of these numbers."""
        try:
            self.process.stdin.write(f"{' '.join(map(str, asked))}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended, and the answer says so
        return self.answer()

    def launches(self):
        """Launches of Sinter's plans, captured ones included; ends the process."""
        try:
            self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        found = 0
        for name in os.listdir(self.place):
            if name.endswith(".prom"):
                with open(os.path.join(self.place, name), encoding="utf-8") as file:
                    found += sum(int(float(line.split()[-1])) for line in file if line.startswith("sinter_launches_total"))
        return found


def agreement(left, right):
    """Share of tokens, from each sequence's beginning, before the first that differs."""
    same = total = 0
    for a, b in zip(left, right):
        total += len(a)
        same += next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), len(a))
    return same / total


def row(engine, rows, options, results):
    seconds, one = (statistics.median(result[key] for result in results) for key in ("seconds", "one_s"))
    made = rows * options.new
    return {**of(engine), "ranks": options.ranks, "rows": rows,
            "context": options.context, "new": options.new, "seconds": seconds, "output_tokens_per_s": made / seconds,
            "decode_tokens_per_s": (made - rows) / (seconds - one), "step_us": (seconds - one) / (options.new - 1) * 1e6,
            "first_token_ms": one * 1e3, "tokens": results[0]["tokens"]}


def of(engine):
    """What a row says of its engine."""
    return {"model": engine.name, "contestant": engine.contestant, **({"format": engine.format} if engine.format else {}),
            "folded": engine.folded, "layers": engine.layers}


def turns(engines, options):
    """Yields the rows of the results file for each number of sequences."""
    for rows in options.rows:
        results = {engine: [] for engine in engines}
        for _ in range(options.rounds):
            for engine in engines:
                results[engine].append(engine.measure(rows))
        yield compare([row(engine, rows, options, results[engine]) for engine in engines])


def scored(engines, options):
    """Yields for each length of prompts how far the results of each two engines are apart."""
    for length in options.scores:
        told = {engine.contestant: engine.measure("score", options.scored, length)["scores"] for engine in engines}
        yield [{"model": engines[0].name, "format": options.format, "prompt": length, "prompts": options.scored, **one} for one in scores.rows(told)]


def prefill(engines, options):
    """Rows of the results file: the time to the first token of one prompt, and tokens a second of as many as have `TOKENS` together."""
    found = []
    for length in options.prompts:
        counts = (1, max(1, TOKENS // length))
        results, own = {engine: {count: [] for count in counts} for engine in engines}, {}
        for _ in range(options.rounds):
            for count in counts:
                for engine in engines:
                    results[engine][count].append(engine.measure(count, length)["seconds"])
        for engine in engines:
            first, all_of_them = (statistics.median(results[engine][count]) for count in counts)
            one = {**of(engine), "ranks": options.ranks, "prompt": length,
                   "first_token_ms": first * 1e3, "prefill_tokens_per_s": counts[-1] * length / all_of_them}
            other = own.setdefault(engine.format, one) if is_own(engine.contestant) else own.get(engine.format)
            if other not in (None, one):
                one["first_token_ratio"] = other["first_token_ms"] / one["first_token_ms"]
                one["prefill_ratio"] = one["prefill_tokens_per_s"] / other["prefill_tokens_per_s"]
            found.append(one)
    return found


def compare(rows):
    """Adds to rows of one number of sequences their ratios to the fastest one without the plugin, of the same format, and drops the tokens."""
    own = {}
    for one in sorted(rows, key=lambda one: one["decode_tokens_per_s"]):
        if is_own(one["contestant"]):
            own[one.get("format")] = one
    for one in rows:
        other = own.get(one.get("format"))
        if other is not None and one is not other:
            one["ratio"] = one["output_tokens_per_s"] / other["output_tokens_per_s"]
            one["decode_ratio"] = one["decode_tokens_per_s"] / other["decode_tokens_per_s"]
            one["agreement"] = agreement(one["tokens"], other["tokens"])
    for one in rows:
        del one["tokens"]
    return rows


def names(table):
    """A type of argument: words of `table`, with commas between."""

    def read(text):
        for name in text.split(","):
            if name not in table:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {' '.join(table)}")
        return text.split(",")

    return read


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="results file")
    parser.add_argument("--models", type=names(ALL), default=["Qwen3-0.6B", "Llama-3-8B"], help="names from ../decode/models.py")
    parser.add_argument("--contestants", type=names(CONTESTANTS), default=DEFAULT, help=" ".join(CONTESTANTS))
    parser.add_argument("--format", choices=list(FORMATS), default="",
                        help="what shares a scale of weights of e4m3 or int4; contestants -bf16 have their values in 16 bits")
    parser.add_argument("--rows", type=lambda text: [int(word) for word in text.split(",")], default=[1, 8, 32])
    parser.add_argument("--ranks", type=int, default=1, help="GPUs that a model's layers are split over")
    parser.add_argument("--context", type=int, default=1024, help="tokens of a prompt")
    parser.add_argument("--new", type=int, default=128, help="tokens made of each prompt")
    parser.add_argument("--prompts", type=lambda text: [int(word) for word in text.split(",")], default=[],
                        help="lengths of prompts, such as 512,2048: measures their prefill, not decoding")
    parser.add_argument("--scores", type=lambda text: [int(word) for word in text.split(",")], default=[],
                        help="lengths of prompts, after which the engines' log probabilities are compared")
    parser.add_argument("--scored", type=int, default=64, help="prompts of each of these lengths")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each engine; the median counts")
    parser.add_argument("--ready", type=float, default=600, help="seconds that an engine may take to start")
    parser.add_argument("--engine", default="{}", help="more arguments of vllm.LLM, JSON")
    parser.add_argument("--logs", help="folder for the engines' logs")
    return parser.parse_args(arguments)


def report_prefill(one):
    beside = f"  with / without {one['first_token_ratio']:.3f} (tokens {one['prefill_ratio']:.3f})" if "prefill_ratio" in one else ""
    print(f"{one['model']:18} prompt {one['prompt']:<5} {one['contestant']:13}  first token after {one['first_token_ms']:8.2f} ms  "
          f"{one['prefill_tokens_per_s']:9.0f} tokens/s{beside}", flush=True)


def report_score(one):
    rms = "-" if one["rms"] is None else f"{one['rms']:.4f}"
    print(f"{one['model']:18} prompt {one['prompt']:<5} {one['contestant']:13} against {one['against']:13}  log probabilities {rms} apart, "
          f"first token the same {one['same_first']:.2f}", flush=True)


def report(one):
    beside = f"  with / without {one['ratio']:.3f} (decode {one['decode_ratio']:.3f})  agreement {one['agreement']:.2f}" if "ratio" in one else ""
    how = {True: "folded", False: "not folded", None: "unknown"}[one["folded"]]
    print(f"{one['model']:18} M {one['rows']:<4} {one['contestant']:13} norms {how:10}  {one['output_tokens_per_s']:9.1f} tokens/s  "
          f"decode {one['decode_tokens_per_s']:9.1f}, {one['step_us']:7.0f} us a step{beside}", flush=True)


def ready(engines, seconds):
    """{engine: its first answer} in the order of `engines`, of those that answer in time, and why the others did not; these are ended."""
    found, failed = {}, []

    def wait(engine):
        try:
            found[engine] = engine.answer()
        except RuntimeError as error:
            failed.append(str(error))

    threads = {engine: threading.Thread(target=wait, args=(engine,), daemon=True) for engine in engines}
    begin = time.monotonic()
    for thread in threads.values():
        thread.start()
    for engine, thread in threads.items():
        thread.join(max(0, begin + seconds - time.monotonic()))
        if thread.is_alive():
            engine.process.kill()
            thread.join()
    return {engine: found[engine] for engine in engines if engine in found}, failed


def measure_model(name, folder, options, result):
    """Starts the engines of a model, adds to `result` what they measure, which is written as it comes, and ends them."""
    engines = [Engine(folder, ALL[name], contestant, options) for contestant in options.contestants]
    started, failed = ready(engines, options.ready)
    result["failures"] += failed
    for engine, said in started.items():
        engine.folded, engine.layers = said["folded"], said.get("layers")
        result["machine"] = result["machine"] or said["machine"]
        result["ready_s"][str(engine)] = said["ready_s"]
    engines = list(started)
    parts = [(scored(engines, options), "scores", report_score)]
    parts.append(([prefill(engines, options)], "rows", report_prefill) if options.prompts else (turns(engines, options), "rows", report))
    try:
        for found, field, tell in parts if engines else ():
            for rows in found:
                for one in rows:
                    tell(one)
                result[field] += rows
                rows_file.write(options.out, result)
    except RuntimeError as error:
        result["failures"].append(str(error))
    for engine in started:
        count = result["launches"][str(engine)] = engine.launches()
        if not is_own(engine.contestant) and not count:
            result["failures"].append(f"{engine}: no plan of Sinter was launched")


def main(arguments):
    options = parse(arguments)
    result = {"machine": None, **source_state.of_library(), "rows": [], "scores": [], "ready_s": {}, "launches": {}, "failures": []}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models:
            measure_model(name, folder, options, result)
            rows_file.write(options.out, result)
    for why in result["failures"]:
        print("FAILED", why)
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
