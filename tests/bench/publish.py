#!/usr/bin/env python3
"""Measures what the published tables cite, at one commit on one kind of card, and puts it where `./dev pages` reads it.

    python3 tests/bench/publish.py measure FOLDER [--budget 560] [--gpus 0,1] [--steps layers,decode]
    python3 tests/bench/publish.py adopt FOLDER

`measure` runs on a machine with a GPU, in the repository's root, with the binaries of `./dev bundle` (--bundle). A step is a results file:
those that FOLDER has of this commit and card are left out, and none begins that would not end within the budget, so call it again until it
says that nothing is left. With several GPUs each runs a step of its own. Plans of the first steps are tuned there and then.
`adopt` needs no GPU: it names the files by card, day and commit in tests/bench/results and in performance/figures.py. It refuses files of
two commits, of two kinds of card, or of a tree with changes; then `./dev pages` writes the pages.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "performance")]

import figures  # noqa: E402
import source_state  # noqa: E402

PROBLEMS = "tests/bench/problems"


@dataclass(frozen=True)
class Step:
    """`name`: what performance/figures.py calls the file. `seconds`: what it takes at most. `tuned`: lists or chains to tune first, a set
    beside the file. `command` writes {out}; {left} is what the budget leaves, for programs that resume. `also`: names that stand for the file too."""

    name: str
    seconds: float
    command: str
    tuned: tuple = ()
    layout: str = "oi"
    resumes: bool = False
    also: tuple = ()


BENCH = "{bench} --peers tests/bench/peers.txt --out {out} "
CONV = "python3 tests/bench/conv_peers.py tests/bench/problems/conv_chains.txt --limit 30 --out {out} --batch "
# In the order of what README's table shows first. Not here: `vllm`, which wants the server, and what asks for counters or hours
# (bytes, dram, brute-force, rank): their pages say their own commands.
STEPS = (
    Step("layers", 200, "python3 tests/bench/layers/layers.py {out} --budget {left}", resumes=True, also=("encoders",)),
    Step("decode", 500, "python3 tests/bench/decode/decode.py --out {out} --seconds {left} --warm 8", resumes=True),
    Step("deepgemm", 300, "python3 tests/bench/scaled_peers.py --out {out} --seconds {left}", resumes=True),
    Step("conv-1", 300, CONV + "1"),
    Step("conv-8", 300, CONV + "8"),
    Step("conv-32", 300, CONV + "32"),
    Step("tables", 400, BENCH + "--layout oi --energy", (f"{PROBLEMS}/gemm_chains.txt", f"{PROBLEMS}/gated_ffn.txt")),
    Step("io", 350, BENCH + "--layout io", (f"{PROBLEMS}/gemm_chains.txt", f"{PROBLEMS}/gated_ffn.txt"), layout="io"),
    Step("batch", 200, BENCH + f"--problems {PROBLEMS}/batch_sweep.txt", (f"{PROBLEMS}/batch_sweep.txt",)),
    Step("middle", 200, BENCH + f"--problems {PROBLEMS}/middle_rows.txt", (f"{PROBLEMS}/middle_rows.txt",)),
    Step("graphs", 500, BENCH + f"--graphs {PROBLEMS}/stitch,{PROBLEMS}/memory_chains.txt", (f"{PROBLEMS}/stitch", f"{PROBLEMS}/memory_chains.txt")),
    Step("peers", 1500, "python3 tests/bench/stitch/peers.py --out {out} --seconds {left}", resumes=True),
    Step("random", 550, BENCH + "--never-slower", (f"{PROBLEMS}/never_slower.txt",), also=("random-above",)),
    Step("random-graphs", 300, BENCH + "--random-graphs --replays 5"),
    Step("unfused-graphs", 200, BENCH + f"--graphs {PROBLEMS}/stitch,{PROBLEMS}/memory_chains.txt"),
    Step("eager", 120, "python3 tests/bench/peers_eager.py --out {out}"),
)
TUNE_SECONDS = 8  # of a chain


# ---------------------------------------------------------------- Measuring


def of_layout(path, layout, folder):
    """A problem list with each line's layout replaced."""
    if layout == "oi" or not path.endswith(".txt"):
        return path
    made = folder / f"{layout}-{pathlib.Path(path).name}"
    made.write_text(pathlib.Path(path).read_text(encoding="utf-8").replace("layout=oi", f"layout={layout}"), encoding="utf-8")
    return str(made)


def tuning(step, folder, places):
    """Commands that write the step's tuning set."""
    made, commands = folder / f"{step.name}.set", []
    for path in step.tuned:
        source = f"--file {of_layout(path, step.layout, folder)}" if path.endswith(".txt") else f"{path}/*.json"
        base = f"--base {made}" if commands else ""
        commands.append(f"{places['sinter']} tune {source} {base} --budget {TUNE_SECONDS} --out {made}")
    return commands


def run(step, folder, places, gpu, left):
    """Whether the step's file is whole."""
    out = folder / f"{step.name}.json"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu, "PYTHONUNBUFFERED": "1", **places["environment"]}
    commands = tuning(step, folder, places)
    if commands:
        environment["SINTER_TUNING_SET"] = ""  # of the commands that make it
    commands.append(step.command.format(out=out, left=int(left), **places))
    with open(folder / f"{step.name}.log", "a", encoding="utf-8") as log:
        until = time.time() + left
        for i, command in enumerate(commands):
            if step.tuned and i == len(commands) - 1:
                environment["SINTER_TUNING_SET"] = str(folder / f"{step.name}.set")
            log.write(f"$ {command}\n")
            log.flush()
            process = subprocess.Popen(command, shell=True, env=environment, stdout=log, stderr=log, start_new_session=True)
            try:
                code = process.wait(timeout=max(1, until - time.time()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # the shell and what it started, which would hold the GPU
                code = f"no end in time, {process.wait()}"
            if code != 0:
                log.write(f"ended with {code}\n")
                return False
    return out.exists()


def card_of(gpu):
    told = subprocess.run(["nvidia-smi", f"--id={gpu}", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, timeout=60)
    return told.stdout.strip()


def measure(arguments):
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    bundle = arguments.bundle.resolve()
    library = str(bundle / "lib/libsinter.so.0")
    places = {
        "sinter": str(bundle / "bin/sinter"),
        "bench": str(bundle / "bin/sinter_bench"),
        "environment": {"LIBSINTER_PATH": library, "SINTER_LIBRARY": library, "LD_LIBRARY_PATH": f"{bundle}/lib:{os.environ.get('LD_LIBRARY_PATH', '')}",
                        "PYTHONPATH": str(bundle / "python")},
    }  # fmt: skip
    gpus = arguments.gpus.split(",")
    by = {"card": card_of(gpus[0]), **source_state.of_tree(bundle)}
    path = folder / "steps.json"
    done = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    done = {name: step for name, step in done.items() if step["by"] == by}
    named = arguments.steps.split(",") if arguments.steps else [step.name for step in STEPS]
    unknown = sorted(set(named) - {step.name for step in STEPS})
    if unknown:
        sys.exit(f"no step {', '.join(unknown)}; there are {' '.join(step.name for step in STEPS)}")
    waiting = [step for step in STEPS if step.name in named and not done.get(step.name, {}).get("whole")]
    until, lock = time.time() + arguments.budget, threading.Lock()

    def work(gpu):
        while True:
            with lock:
                left = until - time.time() - 10
                step = next((step for step in waiting if step.resumes and left > 60 or step.seconds <= left), None)
                if step is None:
                    return
                waiting.remove(step)
            began = time.time()
            whole = run(step, folder, places, gpu, left)
            with lock:
                done[step.name] = {"by": by, "whole": whole, "seconds": round(time.time() - began)}
                path.write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
                print(f"{step.name}: {'whole' if whole else 'not whole, see its log'}, {time.time() - began:.0f} s", flush=True)

    threads = [threading.Thread(target=work, args=(gpu,)) for gpu in gpus]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = [name for name in named if not done.get(name, {}).get("whole")]
    print(f"left: {' '.join(left)}" if left else "nothing is left")
    return 1 if left else 0


# ---------------------------------------------------------------- Publishing


def told_by(path):
    """(card's name, commit, whether its tree had changes, day) of a results file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    machine = content.get("machine", content)
    first = next(iter(content.get("rows", [])), {}) if isinstance(content.get("rows"), list) else {}
    state = {**first, **machine, **{key: content[key] for key in ("commit", "dirty") if key in content}}
    return state["gpu"], state["commit"], bool(state.get("dirty")), str(state["date"])[:10]


def adopt(arguments):
    """Copies whole steps into the results and names them in figures.py."""
    done = json.loads((arguments.folder / "steps.json").read_text(encoding="utf-8"))
    whole = sorted(name for name, step in done.items() if step["whole"] and name in figures.FILES)
    told = {name: told_by(arguments.folder / f"{name}.json") for name in whole}
    refuse_mixed(told)
    path = HERE / "performance" / "figures.py"
    text = path.read_text(encoding="utf-8")
    for name, (gpu, commit, _, day) in told.items():
        card = re.search(r"[HB]\d+", gpu).group().lower()
        stem = f"{card}-{day}-{commit[:7]}-{name}"
        for made, target in ((f"{name}.json", f"{stem}.json"), (f"{name}.set", f"{stem}-tuned.set")):
            if (arguments.folder / made).exists():
                shutil.copyfile(arguments.folder / made, os.path.join(figures.RESULTS, target))
                for key in (name, *next(step.also for step in STEPS if step.name == name)):
                    text = named(text, key, target)
    path.write_text(text, encoding="utf-8")
    print(f"adopted {', '.join(whole)}; ./dev pages, read what it changes, and archive what nothing cites any more")
    return 0


def refuse_mixed(told):
    """Ends the program unless the files {name: told_by} are of one commit without changes and of one kind of card."""
    if not told:
        sys.exit("the folder has no whole step that the pages cite")
    if any(dirty for _, _, dirty, _ in told.values()):
        sys.exit("measured with a modified tree: " + ", ".join(name for name, state in told.items() if state[2]))
    for at, what in ((0, "kinds of card"), (1, "commits")):
        found = sorted({state[at] for state in told.values()})
        if len(found) > 1:
            sys.exit(f"the files are of several {what}: {', '.join(found)}; measure one into a folder of its own")


def named(text, name, target):
    """figures.py's `text` with `target` as the file of that kind that `name` stands for."""
    ending = re.escape(target.rsplit(".", 1)[1])
    return re.sub(rf'("{re.escape(name)}": )"[^"]*\.{ending}"', rf'\1"{target}"', text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    measuring = verbs.add_parser("measure")
    measuring.add_argument("folder", type=pathlib.Path)
    measuring.add_argument("--budget", type=float, default=560, help="seconds")
    measuring.add_argument("--gpus", default="0", help="ordinals, with commas between")
    measuring.add_argument("--steps", default="", help="by default all: " + " ".join(shlex.quote(step.name) for step in STEPS))
    measuring.add_argument("--bundle", type=pathlib.Path, default=pathlib.Path("bundle"))
    verbs.add_parser("adopt").add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    return measure(arguments) if arguments.verb == "measure" else adopt(arguments)


if __name__ == "__main__":
    sys.exit(main())
