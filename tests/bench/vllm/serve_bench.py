#!/usr/bin/env python3
"""`vllm bench serve` against vLLM's server without and with the plugin sinter-gpu-vllm, in turns, on one GPU: server and client on 127.0.0.1.

Usage: serve_bench.py --out FILE.json [--formats bf16,rows,int4] [--concurrent 1,8,32,128] ..    environment as for throughput.py

Each contestant is vLLM's own server in a process of its own, with all layers of Llama 3 8B, random weights and vLLM's defaults. All start at once, and idle
while another is measured. The client is vLLM's: its requests, its measuring, its figures. Ends with 0, or 1 when a server failed.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "decode"), os.path.dirname(HERE), HERE]

import own_benches  # noqa: E402
import source_state  # noqa: E402
from formats import FORMATS  # noqa: E402

MODEL = "Llama 3 8B"

#: Contestants of a format, and what is set in their environments. Plans read weights of four bits in Marlin's order, so vLLM has a second engine that takes Marlin.
MARLIN = {"VLLM_DISABLED_KERNELS": "MacheteLinearKernel"}
OWN, TAKEN = {"VLLM_PLUGINS": ""}, {"VLLM_PLUGINS": "sinter"}
CONTESTANTS = {
    "bf16": {"vllm": OWN, "sinter": TAKEN},
    "rows": {"vllm": OWN, "sinter": TAKEN},
    "int4": {"vllm": OWN, "vllm-marlin": {**OWN, **MARLIN}, "sinter-marlin": {**TAKEN, **MARLIN}},
}

#: What a server is told: vLLM's defaults, but for fewer graphs, which are ready sooner, and a given memory, because several share the GPU.
SERVER = ["--load-format", "dummy", "--max-model-len", "2048", "--max-num-seqs", "128", "--no-enable-prefix-caching", "--seed", "1", "--gpu-memory-utilization", "0.05",
          "--kv-cache-memory-bytes", str(9 << 30), "--compilation-config", json.dumps({"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64, 128]}), "--served-model-name", "m"]

#: What the client is told.
CLIENT = ["--backend", "openai", "--dataset-name", "random", "--random-input-len", "256", "--random-output-len", "128", "--temperature", "0", "--served-model-name", "m",
          "--disable-tqdm", "--seed", "1", "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,99"]

#: Requests for so many at once: some waves.
WAVES = {1: 4, 8: 3, 32: 3}

#: Figures of the client that are kept.
FIGURES = ("output_throughput", "total_token_throughput", "mean_ttft_ms", "median_ttft_ms", "mean_tpot_ms", "median_tpot_ms", "p99_ttft_ms", "p99_tpot_ms", "completed")


class Server:
    """A server's processes."""

    def __init__(self, folder, form, how, options):
        self.form, self.how, self.log, self.begin = form, how, os.path.join(folder, f"{form}-{how}.log"), time.monotonic()
        self.model, place = os.path.join(folder, form), os.path.join(folder, f"{form}-{how}")
        os.makedirs(place)
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        environment = {**os.environ, **CONTESTANTS[form][how], "VLLM_CACHE_ROOT": os.path.join(place, "cache"), "VLLM_NO_USAGE_STATS": "1", "VLLM_HOST_IP": "127.0.0.1",
                       "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", self.model, "--host", "127.0.0.1", "--port", str(self.port), *SERVER, *options.server]
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        if options.stop:
            with open(os.path.join(options.stop, f"{options.gpu}-{self.process.pid}"), "w", encoding="utf-8"):
                pass

    def __str__(self):
        return f"{self.form} {self.how}"

    def wait(self, until):
        """Waits until the server answers. Returns the seconds since its start.

        Raises:
            RuntimeError: it ended, or did not answer in time.
        """
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self} ended with {self.process.returncode}")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2):
                    return time.monotonic() - self.begin
            except (urllib.error.URLError, OSError):
                time.sleep(0.3)
        raise RuntimeError(f"{self} is not ready")

    def measure(self, concurrent):
        """The client's figures for so many requests at once."""
        from vllm.benchmarks import serve
        from vllm.utils.argparse_utils import FlexibleArgumentParser

        parser = FlexibleArgumentParser()
        serve.add_cli_args(parser)
        asked = parser.parse_args([*CLIENT, "--model", "m", "--tokenizer", self.model, "--port", str(self.port), "--max-concurrency", str(concurrent),
                                   "--num-prompts", str(concurrent * WAVES.get(concurrent, 2)), "--num-warmups", str(min(concurrent, 4))])
        found = asyncio.run(serve.main_async(asked))
        return {name: found[name] for name in FIGURES if name in found}

    def told(self):
        """The log's lines that name the plugin or an error, and its last ones."""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip()[:300] for line in file]
        return [line for line in lines if "sinter" in line.lower() or "Error" in line][-8:] + lines[-3:]

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def compare(runs):
    """The rows of the results file: the median of each figure over a contestant's turns; with the plugin also `ratio`, of output tokens a second to those of
    the fastest server without it, and `tpot_ratio` and `ttft_ratio`, how many times as long a token and the first token took there."""
    middle = {}
    for one in runs:
        middle.setdefault((one["format"], one["concurrent"], one["contestant"]), []).append(one)
    rows = []
    for (form, concurrent, how), turns in middle.items():
        rows.append({"format": form, "concurrent": concurrent, "contestant": how, "turns": len(turns),
                     **{name: statistics.median(turn[name] for turn in turns) for name in FIGURES if all(name in turn for turn in turns)}})
    for row in rows:
        own = [one for one in rows if (one["format"], one["concurrent"]) == (row["format"], row["concurrent"]) and one["contestant"].startswith("vllm")]
        if row["contestant"].startswith("sinter") and own:
            best = max(own, key=lambda one: one["output_throughput"])
            row.update(against=best["contestant"], ratio=row["output_throughput"] / best["output_throughput"], tpot_ratio=best["mean_tpot_ms"] / row["mean_tpot_ms"],
                       ttft_ratio=best["mean_ttft_ms"] / row["mean_ttft_ms"])
    return rows


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="results file")
    parser.add_argument("--formats", type=lambda text: text.split(","), default=list(CONTESTANTS), help="bf16, rows (e4m3, a scale a row and a channel), int4")
    parser.add_argument("--concurrent", type=lambda text: [int(word) for word in text.split(",")], default=[1, 8, 32, 128], help="requests at once")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contestant; the median counts")
    parser.add_argument("--limit", type=float, default=3600, help="seconds after which nothing further is measured")
    parser.add_argument("--ready", type=float, default=300, help="seconds that a server may take to start")
    parser.add_argument("--server", type=json.loads, default=[], help="more arguments of the servers, as JSON")
    parser.add_argument("--wait", help="measures once this file is there")
    parser.add_argument("--stop", help="folder for files that name the process groups: architectures.py stops them while it measures")
    parser.add_argument("--gpu", default="0", help="the GPU's number in --stop; CUDA_VISIBLE_DEVICES chooses it")
    return parser.parse_args(arguments)


def go(servers, options, begin, result, save):
    """Measures all servers in turns. A server that fails is left out from then on."""
    def without(one, error):
        result["failures"].append(f"{one}: {error}")
        print(f"FAILED {one}: {error}", *one.told(), sep="\n   ", flush=True)
        servers.remove(one)
        one.end()

    for one in list(servers):
        try:
            seconds = result["ready_s"][str(one)] = one.wait(min(begin + options.ready, begin + options.limit))
            print(f"{time.monotonic() - begin:6.1f} s  {one} is ready after {seconds:.1f} s", flush=True)
        except RuntimeError as error:
            without(one, error)
    while options.wait and not os.path.exists(options.wait):
        time.sleep(0.2)
    for _ in range(options.rounds):
        for concurrent in options.concurrent:
            for one in list(servers):
                if time.monotonic() - begin > options.limit:
                    return
                try:
                    found = one.measure(concurrent)
                except Exception as error:  # of the client: what the server answered
                    without(one, f"{type(error).__name__}: {error}")
                    continue
                result["runs"].append({"format": one.form, "contestant": one.how, "concurrent": concurrent, **found})
                save()


def main(arguments):
    options = parse(arguments)
    begin, result = time.monotonic(), {**source_state.of_library(), "model": MODEL, "server": SERVER + options.server, "client": CLIENT, "waves": WAVES, "ready_s": {},
                                       "rows": [], "runs": [], "failures": []}

    def save():
        result["rows"] = compare(result["runs"])
        with open(options.out + ".part", "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
        os.replace(options.out + ".part", options.out)

    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    with tempfile.TemporaryDirectory() as folder:
        servers = []
        for form in options.formats:
            os.makedirs(os.path.join(folder, form))
            own_benches.write_model(os.path.join(folder, form), MODEL, {"quantization_config": FORMATS[form]} if form in FORMATS else {})
            servers += [Server(folder, form, how, options) for how in CONTESTANTS[form]]
        everyone = list(servers)
        try:
            go(servers, options, begin, result, save)
        finally:
            result["logs"] = {str(one): one.told() for one in everyone}
            for one in servers:
                one.end()
    save()
    for row in result["rows"]:
        ratio = f"  {row['ratio']:.3f} times {row['against']}'s, a token {row['tpot_ratio']:.3f}, the first {row['ttft_ratio']:.3f}" if "ratio" in row else ""
        print(f"{row['format']:5} {row['concurrent']:4} at once  {row['contestant']:14} {row['output_throughput']:9.1f} tokens/s  first {row['mean_ttft_ms']:7.2f} ms  "
              f"a token {row['mean_tpot_ms']:6.3f} ms{ratio}", flush=True)
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
