#!/usr/bin/env python3
"""Measures what the published tables cite, at one commit on one card, and puts it where `./dev pages` reads it.

    publish.py --list                                                    the plan: steps, seconds, commands
    publish.py --measure FOLDER [--seconds 560] [--gpus 0,1] [--steps layers,decode] [--bundle DIR]
    publish.py --collect FOLDER [--partial decode,..]
    publish.py --archive

--measure runs where a GPU is, from a checkout or from what `./dev bundle` makes. Each step writes FOLDER/CARD-DAY-COMMIT-STEP.json, of the
day it began, and says in it whether it is whole. Whole ones are left out and the others go on, so call it again until nothing is left, past
midnight too: no step begins that would not end within the seconds. Of several GPUs each runs a step of its own, behind those that take two.
A library of a modified tree is refused.
--collect needs no GPU: it copies the newest whole file of each step into tests/bench/results, names it in performance/figures.py, and
writes the pages. It refuses files of a modified tree, of no commit, of another than their names say, of two commits or of two kinds of card.
--archive moves results files that no page of now and no code names into the archive, and lists them there;
what was taken out of it into the folder again leaves it.
"""

import argparse
import datetime
import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE / "performance")]

import figures  # noqa: E402
import rows_file  # noqa: E402
import source_state  # noqa: E402


@dataclass(frozen=True)
class Step:
    """`seconds`: what it takes on one H200 with 16 processors. `command` writes {out}; {left} is what the call leaves it, for programs that
    stop by themselves. `also`: names of performance/figures.py that stand for its file too. `gpus`: how many it takes."""

    name: str
    seconds: float
    command: str
    also: tuple = ()
    gpus: int = 1


PYTHON = "{python} tests/bench/"
CONV = PYTHON + "conv_peers.py tests/bench/problems/conv_chains.txt --out {out} --limit 30 --contestants fused_relu,linear_relu,cudnn,sinter --batch "
LISTS = ",".join(f"tests/bench/problems/{name}.txt" for name in ("gemm_chains", "gated_ffn", "batch_sweep"))
MODELS = "bert_base,llama3_8b,mixtral,qwen3_moe,whisper_encoder,convnext_t,efficientnet_b0"
# In the order of what a reader of the top README asks first.
STEPS = (
    Step("ranks", 80, PYTHON + "ranks/ranks.py {out} --parts times,models --rows 1,16,128,1024 --model-rows 1,128,1024 "
         "--kinds bf16 --seconds {left}", ("ranks-models",), gpus=2),
    Step("products", 70, "{bench} --peers tests/bench/peers.txt --out {out} --problems " + LISTS, ("batch",)),
    Step("models", 130, PYTHON + f"torch_backend/run.py {{out}} --budget {{left}} --jobs 8 --models {MODELS}"),
    Step("decode", 80, PYTHON + "decode/decode.py --out {out} --seconds {left} --warm 4 --models Qwen3-0.6B,Llama-3-8B --rows 1,64 "
         "--contestants serving,compile,sinter-pdl"),
    Step("layers", 80, PYTHON + "layers/layers.py {out} --budget {left} --every 6", ("depthwise", "images")),
    Step("experts", 70, PYTHON + "experts/experts.py --out {out} --seconds {left} --routings uniform --contestants sinter,triton "
         "--rows 1,64,1024 --models qwen3-30b,mixtral-tp2,gpt-oss-20b,deepseek-v3-tp8-fp8"),
    Step("conv-1", 30, CONV + "1"),
    Step("conv-32", 35, CONV + "32"),
    Step("fp8", 40, PYTHON + "scaled_peers.py --out {out} --seconds {left} --models llama3_8b,qwen3_32b_tp4 --rows 1,128,1024 "
         "--contestants promoted,fast,cublaslt,promoted-block,deepgemm-block,sinter,sinter-block"),
    Step("training", 110, PYTHON + "torch_backend/training.py {out} --budget {left} --jobs 3 --rows resnet50@32,bert_base@32,vit_b16@32"),
    Step("graphs", 150, PYTHON + "stitch/peers.py --out {out} --seconds {left} --only memory_chains,stitch_graphs --peers sinter,torch,sinter_kernels,xla"),
    Step("large", 240, PYTHON + "stitch/peers.py --out {out} --seconds {left} --only large --peers sinter,torch,sinter_kernels,xla"),
)
PATIENCE = 1.5  # times its seconds is a step given at most
SPARE = 5  # seconds at a call's end, to write and to leave
LEFT = r"\d+ left; run|not complete: run it again|\"stopped\":"  # what programs say that end before they are whole
NAME = re.compile(r"(?P<card>[a-z]+\d+)-(?P<day>\d{4}-\d\d-\d\d)-(?P<commit>[0-9a-f]{7})-(?P<step>[a-z0-9-]+)\.json")


def step_of(name):
    found = next((step for step in STEPS if step.name == name), None)
    if found is None:
        sys.exit(f"publish: no step is called {name!r}; there are {' '.join(step.name for step in STEPS)}")
    return found


def show(steps=STEPS):
    """The plan as text."""
    lines = [f"{step.name:9} {step.seconds:4.0f} s{f' on {step.gpus} GPUs' if step.gpus > 1 else ''}, for {', '.join((step.name, *step.also))}: "
             + step.command.replace("{python}", "python3").replace("{bench}", "sinter_bench") for step in steps]
    return "\n".join([*lines, f"{sum(step.seconds * step.gpus for step in steps) / 60:.0f} minutes of one card"])


# ---------------------------------------------------------------- Measuring


def places_of(bundle):
    """What commands and their environment are made of."""
    library = str(bundle / "lib/libsinter.so.0")
    paths = [str(bundle / "python"), os.environ.get("PYTHONPATH", "")]
    environment = {"LIBSINTER_PATH": library, "SINTER_LIBRARY": library, "PYTHONPATH": ":".join(filter(None, paths)), "PYTHONUNBUFFERED": "1",
                   "LD_LIBRARY_PATH": f"{bundle}/lib:{os.environ.get('LD_LIBRARY_PATH', '')}"}  # fmt: skip
    return {"python": f"{sys.executable} -B", "bench": str(bundle / "bin/sinter_bench"), "environment": environment}


def asked(command, environment):
    """What a program prints; "" where there is none."""
    if not shutil.which(command[0]):
        return ""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **environment})
    return done.stdout.strip()


def card_of(gpu):
    return asked(["nvidia-smi", f"--id={gpu}", "--query-gpu=name", "--format=csv,noheader"], {})


def state_of(places):
    """Commit and whether the tree was modified, of the library that is measured."""
    return source_state.source_state(asked([sys.executable, "-c", "import sinter; print(sinter.build_info())"], places["environment"]))


def content_of(path):
    """What a results file holds; None where there is none, or where a program was ended as it wrote."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def is_whole(path):
    return (content_of(path) or {}).get("publish", {}).get("whole", False)


def is_readable(path):
    """Whether a results file is there. A broken one is removed, so that its step begins anew."""
    readable = content_of(path) is not None
    if not readable and path.exists():
        print(f"publish: {path.name} is broken: removed", flush=True)
        path.unlink()
    return readable


def mark(path, step, whole, seconds):
    """Says in a results file what it was measured for, or takes that out, for the program that goes on with it."""
    content = json.loads(path.read_text(encoding="utf-8"))
    before = content.pop("publish", {"seconds": 0})
    if step is not None:
        content["publish"] = {"step": step.name, "whole": whole, "seconds": round(before["seconds"] + seconds)}
    rows_file.write(str(path), content)
    return before


def finished(process, left):
    """The status with which a process ended, or what was done to one that did not."""
    try:
        return process.wait(timeout=max(1, left))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the shell and what it started, which would hold the GPU
        return f"no end in time, {process.wait()}"


def run(step, out, places, gpus, left):
    """Whether the step's file is whole."""
    environment = {**os.environ, **places["environment"], "CUDA_VISIBLE_DEVICES": ",".join(gpus)}
    command = step.command.format(out=out, left=int(left - SPARE), **places)
    began, before = time.monotonic(), mark(out, None, None, 0) if is_readable(out) else {"seconds": 0}
    with open(out.with_suffix(".log"), "a+", encoding="utf-8") as log:
        log.write(f"$ {command}\n")
        log.flush()
        at = log.tell()
        process = subprocess.Popen(command, shell=True, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)
        code = finished(process, left)
        log.write(f"ended with {code}\n")
        log.seek(at)
        told = log.read()
    if not is_readable(out):
        return False
    whole = code == 0 and not re.search(LEFT, told)
    mark(out, step, whole, before["seconds"] + time.monotonic() - began)
    return whole


def path_of(folder, card, commit, step):
    """A step's file: of another day too where one of the card and commit is there, a whole one first; else of today (UTC)."""
    before = folder.glob(f"{card}-????-??-??-{commit}-{step.name}.json")
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return max(before, key=lambda path: (is_whole(path), path.name), default=folder / f"{card}-{today}-{commit}-{step.name}.json")


def measure(arguments):
    folder, places = arguments.measure.resolve(), places_of(arguments.bundle.resolve())
    folder.mkdir(parents=True, exist_ok=True)
    gpus, state = arguments.gpus.split(","), state_of(places)
    if state["dirty"] or state["commit"] == "unknown":
        sys.exit(f"publish: the library is of commit {state['commit']}{', modified' if state['dirty'] else ''}: build one of a commit")
    name = card_of(gpus[0])
    if not name:
        sys.exit("publish: nvidia-smi names no GPU: measure where one is, with what ./dev bundle --publish makes")
    path = lambda step: path_of(folder, figures.card_name(name).lower(), state["commit"][:7], step)
    wanted = [step_of(name) for name in arguments.steps.split(",")] if arguments.steps else list(STEPS)
    wanted = [step for step in wanted if not is_whole(path(step))]
    until, lock = time.monotonic() + arguments.seconds, threading.Lock()

    def one(step, gpus):
        began, left = time.monotonic(), min(until - time.monotonic(), PATIENCE * step.seconds)
        whole = run(step, path(step), places, gpus, left)
        print(f"{step.name}: {'whole' if whole else 'not whole, see its log'}, {time.monotonic() - began:.0f} s", flush=True)

    def work(gpu, waiting):
        while True:
            with lock:
                step = next((step for step in waiting if step.seconds <= until - time.monotonic()), None)
                if step is None:
                    return
                waiting.remove(step)
            one(step, [gpu])

    for step in [step for step in wanted if step.gpus > 1]:
        if len(gpus) < step.gpus:
            print(f"{step.name}: takes {step.gpus} GPUs: --gpus 0,1", flush=True)
        elif step.seconds <= until - time.monotonic():
            one(step, gpus[: step.gpus])
    waiting = [step for step in wanted if step.gpus == 1]
    threads = [threading.Thread(target=work, args=(gpu, waiting)) for gpu in gpus]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = [step.name for step in wanted if not is_whole(path(step))]
    print(f"left: {' '.join(left)}" if left else "nothing is left")
    return 1 if left else 0


# ---------------------------------------------------------------- Collecting


def refuse_mixed(states):
    """Ends the program unless the files {path: figures.State} are of one commit without changes, that of their names, and of one kind of card:
    of one full name, since cards of a short one differ."""
    if not states:
        sys.exit("publish: the folder has no whole file of a step")
    named = {path: NAME.fullmatch(pathlib.PurePath(path).name)["commit"] for path in states}
    for what, is_so in (
        ("measured with a modified tree", lambda path, state: state.dirty),
        ("does not say its commit or its card", lambda path, state: state.commit == "unknown" or not state.cards or "unknown" in state.cards),
        ("of another commit than its name", lambda path, state: state.commit != named[path]),
    ):
        wrong = [path for path, state in states.items() if is_so(path, state)]
        if wrong:
            sys.exit(f"publish: {what}: {', '.join(wrong)}")
    cards, commits = {card for state in states.values() for card in state.cards}, {state.commit for state in states.values()}
    for what, found in (("kinds of card", cards), ("commits", commits)):
        if len(found) > 1:
            sys.exit(f"publish: the files are of several {what}: {', '.join(sorted(found))}; collect one at a time")


def found_in(folder, partial=()):
    """{step's name: paths, the newest last} of the whole files of each step, and of those of `partial` that are not whole."""
    found = {}
    for path in sorted(folder.rglob("*.json"), key=lambda path: (path.name, path)):
        match = NAME.fullmatch(path.name)
        told = content_of(path) if match and match["step"] in {step.name for step in STEPS} else None
        if told is not None and (is_whole(path) or match["step"] in partial):
            found.setdefault(match["step"], []).append(path)
        elif match:
            print(f"publish: {path.name} is not whole, or no step's: left out")
    return found


def named(text, key, target):
    """figures.py's `text` with `target` as the file called `key`."""
    changed, count = re.subn(rf'("{re.escape(key)}": )"[^"]*"', rf'\1"{target}"', text)
    if count != 1:
        sys.exit(f"publish: performance/figures.py names {key!r} {count} times")
    return re.sub(r"^TUNED = .*$", lambda line: line[0].replace(f'"{key}", ', "").replace(f', "{key}"', "").replace(f'{{"{key}"}}', "set()"), changed, flags=re.M)


def collect(arguments):
    found = found_in(arguments.collect, arguments.partial.split(","))
    refuse_mixed({str(path): figures.state_of(content_of(path)) for paths in found.values() for path in paths})
    found = {name: paths[-1] for name, paths in found.items()}  # of one card and commit, so the names' order is that of days
    names = pathlib.Path(figures.__file__)
    text = names.read_text(encoding="utf-8")
    for name, path in found.items():
        (HERE / "results" / path.name).write_bytes(path.read_bytes())
        for key in (name, *step_of(name).also):
            text = named(text, key, f"results/{path.name}")
    names.write_text(text, encoding="utf-8")
    print(f"collected {', '.join(found)}; read what changes, mend sentences that are no longer so, archive what nothing cites any more", flush=True)
    return subprocess.run([sys.executable, "-B", str(HERE / "performance" / "page.py")], check=False).returncode


# ---------------------------------------------------------------- Archiving


def named_in_code(root):
    """The text of all code of tests and bindings, and of the files that the pages cite."""
    paths = [path for folder in ("tests", "bindings") for ending in ("py", "cc", "h") for path in (root / folder).rglob(f"*.{ending}")]
    return " ".join([*(path.read_text(encoding="utf-8", errors="replace") for path in paths), *figures.FILES.values()])


def told_of(path):
    """A file's line of the archive's list."""
    if path.suffix != ".json":
        return f"| {path.name} |  |  | {'a tuning set' if path.suffix == '.set' else 'the output of a program'} |"
    content = json.loads(path.read_text(encoding="utf-8"))
    state, said = figures.state_of(content), figures.values_of(content, "dirty")
    holds = ", ".join(f"{name} {len(value)}" for name, value in content.items() if isinstance(value, list) and value)
    return f"| {path.name} | {state.commit} | {'yes' if state.dirty else 'no' if said else ''} | {holds} |"


def archive():
    folder, code = HERE / "results", named_in_code(ROOT)
    old = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".set", ".txt") and path.name not in code)
    held, listed = folder / "archive.tar.xz", folder / "archive.md"
    with tarfile.open(held) as before:
        members = {member.name: before.extractfile(member).read() for member in before.getmembers()}
    taken_out = {name for name in members if (folder / name).exists()}
    if not old and not taken_out:
        print("every results file is named by a page or by code")
        return 0
    members = {name: content for name, content in members.items() if name not in taken_out}
    members.update({path.name: path.read_bytes() for path in old})
    with tarfile.open(held, "w:xz", preset=9) as after:
        for name in sorted(members):
            member = tarfile.TarInfo(name)  # without owner and time: the same files make the same archive
            member.size = len(members[name])
            after.addfile(member, io.BytesIO(members[name]))
    head, _, rows = listed.read_text(encoding="utf-8").partition("|---|---|---|---|\n")
    kept = [row for row in rows.splitlines() if row.split()[1] not in taken_out]
    rows = sorted([*kept, *map(told_of, old)])
    listed.write_text(f"{head}|---|---|---|---|\n" + "\n".join(rows) + "\n", encoding="utf-8")
    for path in old:
        path.unlink()
    print(f"archived {len(old)} files, left out {len(taken_out)} that lie in the folder again; {held.stat().st_size / 1e6:.1f} MB")
    return 0


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verb = parser.add_mutually_exclusive_group(required=True)
    verb.add_argument("--list", action="store_true", help="print the plan")
    verb.add_argument("--measure", type=pathlib.Path, metavar="FOLDER")
    verb.add_argument("--collect", type=pathlib.Path, metavar="FOLDER")
    verb.add_argument("--archive", action="store_true", help="move what nothing names any more into the archive")
    parser.add_argument("--seconds", type=float, default=560, help="of --measure: it ends by then")
    parser.add_argument("--gpus", default=os.environ.get("CUDA_VISIBLE_DEVICES") or "0", help="ordinals, with commas between")
    parser.add_argument("--steps", default="", help="by default all")
    parser.add_argument("--bundle", type=pathlib.Path, default=ROOT if (ROOT / "lib").exists() else ROOT / "bundle", help="has bin, lib and python")
    parser.add_argument("--partial", default="", help="of --collect: steps that are taken though not whole")
    arguments = parser.parse_args(words)
    if arguments.list:
        print(show())
        return 0
    if arguments.archive:
        return archive()
    return measure(arguments) if arguments.measure else collect(arguments)


if __name__ == "__main__":
    sys.exit(main())
