#!/usr/bin/env python3
"""Many decoders in vLLM without and with the plugin sinter-gpu-vllm: captured parts, results compared with uncompiled vLLM, times of the decoding graph.

Usage: architectures.py --out FILE.jsonl [--list architectures.jsonl] [--only A,B] [--rows 8] [--limit SECONDS] ..    as throughput.py, on each GPU there is

A row of the list has two engines, each in a process forked from this one, which has imported vLLM. Engines start and compile side by side. While a row's
graphs are measured, in turns, all other engines of its GPU are stopped. A row is written when it ends; a second run goes on with those that are not in
the file. Ends with 0 when all rows ran, 1 when one failed or was not reached, 2 for a command line that is wrong.
"""

import argparse
import contextlib
import importlib.metadata
import json
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import architecture_engine as engines  # noqa: E402
import piece_errors  # noqa: E402
import scores  # noqa: E402
import source_state  # noqa: E402

HOWS = {"vllm": "", "sinter": "sinter"}  # and the plugins that vLLM loads
TURNS = (1, 2, 3)  # of each engine, each with other prompts


class Engine:
    """A process that runs ``architecture_engine.run``. Its answers are lines of a pipe, read when there are any."""

    def __init__(self, row, how, gpu, folder, options):
        self.row, self.how, self.gpu, self.begin = row, how, gpu, time.monotonic()
        self.said, self.failure, self.rest = [], "", b""
        self.place = os.path.join(folder, f"{row['name'].replace(' ', '_').replace('/', '_')}-{how}")
        os.makedirs(self.place)
        self.log = os.path.join(self.place, "log")
        (reading, answers), (asked, self.asking) = os.pipe(), os.pipe()
        self.process = os.fork()
        if not self.process:
            _be_engine(self, answers, asked, (reading, self.asking), options)  # does not return
        with contextlib.suppress(OSError):
            os.setpgid(self.process, self.process)  # in both processes, as one of them is first
        os.close(answers)
        os.close(asked)
        self.answers = reading

    def __str__(self):
        return f"{self.row['name']} {self.how}"

    def ask(self, line):
        with contextlib.suppress(BrokenPipeError):
            os.write(self.asking, f"{line}\n".encode())

    def read(self):
        """Takes what the pipe holds; notes a failure where the process has ended."""
        data = os.read(self.answers, 1 << 16)
        *lines, self.rest = (self.rest + data).split(b"\n")
        self.said += [json.loads(line) for line in lines]
        if not data:
            self.failure = self.failure or "its process ended"
        elif self.said and "failure" in self.said[-1]:
            self.failure = self.said[-1]["failure"]

    def end(self):
        send(self.process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.process, 0)
        os.close(self.answers)
        os.close(self.asking)

    def told(self):
        """The log's last lines that name an error, for people."""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip()[:300] for line in file]
        return [line for line in lines if "Error" in line][-4:] + lines[-6:]


def _be_engine(engine, answers, asked, others, options):
    """The forked process."""
    code = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for one in others:
            os.close(one)
        log = os.open(engine.log, os.O_WRONLY | os.O_CREAT, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.update({
            "CUDA_VISIBLE_DEVICES": engine.gpu, "VLLM_PLUGINS": HOWS[engine.how], "VLLM_CACHE_ROOT": os.path.join(engine.place, "cache"),
            "TORCHINDUCTOR_CACHE_DIR": os.path.join(engine.place, "inductor"), **engine.row.get("env", {})})

        def answer(content):
            os.write(answers, f"{json.dumps(content)}\n".encode())

        try:
            if not options.forked:
                engines.prepare([engine.row])
            engines.run(engine.row, engine.how, engine.place, {"rows": options.rows, "errors": has_errors(engine.row, options)}, answer, os.fdopen(asked))
            code = 0
        except BaseException as error:  # also an exit: the row says why
            import traceback

            traceback.print_exc()
            answer({"failure": f"{type(error).__name__}: {error}"[:500]})
    finally:
        sys.stdout.flush()
        os._exit(code)  # nothing of the parent's may run at exit


class Pair:
    """The engines of a row, on one GPU."""

    def __init__(self, row, gpu, folder, options):
        self.row, self.gpu, self.options = row, gpu, options
        self.engines = {how: Engine(row, how, gpu, folder, options) for how in HOWS}

    def ready(self):
        return all(one.said or one.failure for one in self.engines.values())

    def busy(self):
        """Engines that still start."""
        return sum(not one.said and not one.failure for one in self.engines.values())

    def late(self):
        """Gives an engine up that takes too long."""
        for one in self.engines.values():
            if not one.said and not one.failure and time.monotonic() - one.begin > self.options.ready:
                one.failure = f"not ready after {self.options.ready:.0f} s"

    def failed(self):
        return any(one.failure for one in self.engines.values())

    def measure(self):
        """{how: [{rows: microseconds}, a turn each]}."""
        found = {how: [] for how in self.engines}
        for turn in TURNS:
            for how, one in self.engines.items():
                had, until = len(one.said), time.monotonic() + 20
                one.ask(turn)
                while len(one.said) == had and not one.failure:
                    if not select.select([one.answers], [], [], max(0, until - time.monotonic()))[0]:
                        one.failure = "a measurement took more than 20 s"
                        break
                    one.read()
                if one.failure:
                    return found
                found[how].append(one.said[-1]["graph_us"])
        return found

    def result(self, times):
        """The row of the results file."""
        said = {how: one.said[0] if one.said and "scores" in one.said[0] else {} for how, one in self.engines.items()}
        own, ours = said["vllm"], said["sinter"]
        found = {"name": self.row["name"], "architecture": self.row["architecture"], "gpu": self.gpu,
                 "ready_s": {how: one.get("ready_s") for how, one in said.items()}, "all_s": {how: one.get("all_s") for how, one in said.items()}}
        if ours:
            found.update(linked=ours["layers"], **summary(ours["graphs"]))
        if own.get("uncompiled"):
            found["rms"] = {how: beside(one["scores"], own["uncompiled"]) for how, one in said.items() if one}
        if has_errors(self.row, self.options):
            found["pieces"] = {how: piece_errors.summary(one["pieces"]) for how, one in said.items() if one}
        if times:
            found.update(ratios(times))
        failures = {how: {"why": one.failure, "log": one.told()} for how, one in self.engines.items() if one.failure}
        if failures:
            found["failures"] = failures
        return found

    def end(self):
        for one in self.engines.values():
            one.end()
            if not self.options.logs:
                shutil.rmtree(one.place, ignore_errors=True)


def summary(graphs):
    """Counts of the pass's reports: parts, graphs, graphs without a part, ops, ops in parts, and {reason: ops} for ops that are not captured."""
    left = {}
    for one in graphs:
        for op, why in one["left"]:
            key = f"{op}: {why.partition(';')[0]}"[:160]
            left[key] = left.get(key, 0) + 1
    ops = sum(one["ops"] for one in graphs)
    return {"graphs": len(graphs), "parts": sum(len(one["taken"]) for one in graphs), "without": sum(not one["taken"] for one in graphs),
            "ops": ops, "taken": ops - sum(left.values()), "left": dict(sorted(left.items(), key=lambda one: -one[1])[:12])}


def has_errors(row, options):
    return bool({row["name"], "all"} & {*options.errors})


def beside(told, uncompiled):
    """{kind: the root mean square of differences of log probabilities, of all prompts, of each, and the median of these; of each prompt the mean difference; the
    share of prompts whose most probable token is the same}. A mean difference is what the largest logit and a router's choice move: logits are of 16 bits, so one
    between 64 and 128 moves by 0.5."""
    found = {}
    for kind in told:
        one = scores.distance(told[kind], uncompiled[kind])
        pairs = list(zip(told[kind], uncompiled[kind]))
        each = [scores.distance([left], [right])["rms"] for left, right in pairs]
        known = [value for value in each if value is not None]
        found[kind] = {"rms": one["rms"], "each": each, "middle": statistics.median(known) if known else None, "shift": [shift(*pair) for pair in pairs],
                       "same_first": one["same_first"]}
    return found


def shift(left, right):
    """The mean difference of two answers' log probabilities, None without a common token."""
    common = left.keys() & right.keys()
    return statistics.mean(left[token] - right[token] for token in common) if common else None


def ratios(times):
    """The means of turns, and without / with the plugin, for each number of rows whose graph both have."""
    middle = {how: {m: statistics.mean(one[m] for one in turns) for m in turns[0] if all(one[m] for one in turns)} for how, turns in times.items() if turns}
    both = [m for m in middle.get("vllm", ()) if m in middle.get("sinter", ())]
    return {"turns_us": times, "graph_us": middle, "ratio": {m: middle["vllm"][m] / middle["sinter"][m] for m in both}}


@contextlib.contextmanager
def alone(pair, running, more):
    """Stops all engines of a pair's GPU but its own, and process groups that files of folder `more` name, GPU-GROUP."""
    groups = [one.process for other in running if other is not pair and other.gpu == pair.gpu for one in other.engines.values()]
    groups += [int(name.partition("-")[2]) for name in (os.listdir(more) if more else ()) if name.partition("-")[0] == pair.gpu]
    for group in groups:
        send(group, signal.SIGSTOP)
    time.sleep(0.03)  # what they have launched ends
    try:
        yield
    finally:
        for group in groups:
            send(group, signal.SIGCONT)


def send(group, number):
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def go(rows, gpus, options, write):
    """Runs rows until all are done or the time is up. `write` gets each result. Returns rows that were not reached."""
    waiting, running, end = list(rows), [], time.monotonic() + options.limit
    with tempfile.TemporaryDirectory() as place:
        folder = options.logs or place
        try:
            while (waiting or running) and time.monotonic() < end:
                while waiting and (not running or sum(pair.busy() for pair in running) + len(HOWS) <= options.at_once) and time.monotonic() < end - options.least:
                    gpu = min(gpus, key=lambda one: sum(other.gpu == one for other in running))
                    running.append(Pair(waiting.pop(0), gpu, folder, options))
                if not running:
                    break
                pipes = {one.answers: one for pair in running for one in pair.engines.values() if not one.failure}
                for pipe in select.select(list(pipes), [], [], 0.5)[0]:
                    pipes[pipe].read()
                for pair in list(running):
                    pair.late()
                    if pair.ready():
                        times = {}
                        if not pair.failed():
                            with alone(pair, running, options.stop):
                                times = pair.measure()
                        write(pair.result(times))
                        running.remove(pair)
                        pair.end()
        finally:
            for pair in running:
                pair.end()
    return waiting + [pair.row for pair in running]


def tell(one):
    ratio = "  ".join(f"M {m}: {one['graph_us']['vllm'][m]:.0f} / {one['graph_us']['sinter'][m]:.0f} = {ratio:.3f}" for m, ratio in one.get("ratio", {}).items())
    rms = " ".join(f"{how} " + "/".join("-" if kind["rms"] is None else f"{kind['rms']:.4f} ({kind['middle']:.4f})" for kind in kinds.values()) for how, kinds in one.get("rms", {}).items())
    parts = f"{one.get('parts', 0)} parts of {one.get('graphs', 0)} graphs, {one.get('taken', 0)} of {one.get('ops', 0)} ops, {one.get('linked', 0)} counted"
    pieces = " ".join(f"{how} {of['mean']:.2f}, most {of['most']['ratio']:.2f}" for how, of in one.get("pieces", {}).items() if of["outputs"])
    pieces = pieces and f"error of pieces {pieces}; "
    why = "".join(f"\n      FAILED {how}: {what['why'][:300]}" for how, what in one.get("failures", {}).items())
    ready = " ".join(f"{seconds:.0f}" for seconds in one["ready_s"].values() if seconds)
    print(f"{one['at_s']:6.1f} s  {one['name']:22} {ratio or 'no ratio':34} {parts}; rms {rms}; {pieces}ready after {ready} s{why}", flush=True)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="results file, a line a row; rows that it holds do not run again, unless they failed")
    parser.add_argument("--list", default=os.path.join(HERE, "architectures.jsonl"), help="the rows")
    parser.add_argument("--only", type=lambda text: text.split(","), help="names of rows")
    parser.add_argument("--rows", type=lambda text: [int(word) for word in text.split(",")], default=[8], help="numbers of sequences, such as 1,8,32")
    parser.add_argument("--errors", type=lambda text: text.split(","), default=[], help="names of rows, or all: compares results of their compiled pieces with float64")
    parser.add_argument("--gpus", type=lambda text: text.split(","), help="default: all that there are")
    parser.add_argument("--at-once", type=int, default=os.cpu_count(), help="engines that start side by side; default: as many as there are cores")
    parser.add_argument("--limit", type=float, default=3600, help="seconds after which it ends")
    parser.add_argument("--least", type=float, default=25, help="no row starts when less than so many seconds are left")
    parser.add_argument("--ready", type=float, default=240, help="seconds that an engine may take to start")
    parser.add_argument("--no-fork", dest="forked", action="store_false", help="each engine imports vLLM by itself, which takes longer")
    parser.add_argument("--stop", help="folder whose files GPU-GROUP name more process groups to stop while graphs are measured")
    parser.add_argument("--logs", help="folder for the engines' logs and caches")
    return parser.parse_args(arguments)


def known(path):
    """Names in the results file that need not run again."""
    if not os.path.exists(path):
        return set()
    with open(path, encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    return {one["name"] for one in found if "name" in one and "failures" not in one}


def fork_works(gpu):
    """Whether a process that is forked now can open the GPU."""
    child = os.fork()
    if not child:
        code = 1
        try:
            os.environ["CUDA_VISIBLE_DEVICES"] = gpu
            import torch

            torch.cuda.init()
            code = 0
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def machine():
    """The GPU and the versions, asked without opening a GPU."""
    found = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True, check=True).stdout.splitlines()
    return {"gpu": found[0], "gpus": len(found), **{name: importlib.metadata.version(name) for name in ("vllm", "torch", "transformers")}}


def environment():
    """Sets the variables that all engines share."""
    os.environ.update({"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_ALLOW_INSECURE_SERIALIZATION": "1", "VLLM_USE_V2_MODEL_RUNNER": "0", "VLLM_NO_USAGE_STATS": "1", "SINTER_VLLM_SAMPLER": "0", "FLASHINFER_CUDA_ARCH_LIST": "9.0a",
                       "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"})


def main(arguments):
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # engines end with this process
    begin = time.monotonic()
    done = known(options.out)
    rows = [row for row in engines.read(options.list) if row["name"] not in done and (not options.only or row["name"] in options.only)]
    environment()
    missing = engines.prepare(rows) if options.forked else []
    gpus = options.gpus or [str(i) for i in range(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout.count("GPU "))]
    if options.forked and not fork_works(gpus[0]):
        print("a fork cannot open the GPU, because an import did: use --no-fork")
        return 3
    options.limit -= time.monotonic() - begin
    print(f"{time.monotonic() - begin:6.1f} s  imported; {len(rows)} rows, GPUs {','.join(gpus)}", *(f"not yet {why}" for why in missing), sep="\n  ", flush=True)
    results = []
    with open(options.out, "a", encoding="utf-8") as out:
        print(json.dumps({"machine": machine(), **source_state.of_library(), "rows": options.rows}), file=out, flush=True)

        def write(one):
            one["at_s"] = time.monotonic() - begin
            results.append(one)
            print(json.dumps(one), file=out, flush=True)
            tell(one)

        left = go(rows, gpus, options, write)
    found = [ratio for one in results for ratio in one.get("ratio", {}).values()]
    if found:
        print(f"{len(found)} ratios, geometric mean {statistics.geometric_mean(found):.3f}, least {min(found):.3f}")
    print("not reached:", ", ".join(row["name"] for row in left) or "none")
    return 1 if left or any("failures" in one for one in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
