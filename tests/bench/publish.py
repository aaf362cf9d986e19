#!/usr/bin/env python3
"""Measures what the published tables cite, at one commit on one card, and puts it where `./dev pages` reads it.

    publish.py --list [--seed 1234567]                                   the plan: steps, seconds, rows, commands
    publish.py --measure FOLDER [--seconds 560] [--gpus 0,1] [--steps layers,decode] [--thin 2] [--bundle DIR]
    publish.py --collect FOLDER [--shorter models,..]
    publish.py --archive

--measure runs where a GPU is, from a checkout or from what `./dev bundle` makes. Each step measures the rows that lists.py gives for the commit,
and writes FOLDER/CARD-DAY-COMMIT-STEP.json, of the day it began. The file says which rows its lists have, and whether it is whole: each of
them has the time of each peer or says why not. Whole ones are left out and the others go on, so call it again until nothing is left, past
midnight too: no step begins that would not end within the seconds, except steps that go on where they were. Each of several GPUs runs a step.
A library of a modified tree is refused. --thin N: one of N rows of each list that may be drawn, so that one card is enough.
--collect needs no GPU: it copies the newest whole file of each step into tests/bench/results, names it in performance/figures.py, and
writes the pages. It refuses files of a modified tree, of no commit, of another than their names say, of two commits or of two kinds of card.
--shorter: of a drawn list that is not whole, the first rows of the draw that are all there, however few the list allows.
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
import lists  # noqa: E402
import told  # noqa: E402
import rows_file  # noqa: E402
import source_state  # noqa: E402


@dataclass(frozen=True)
class Step:
    """`seconds`: what it takes on one H200 with 16 processors. `command` writes {out}; {left} is what the call leaves it, for programs that
    stop by themselves, {cases} the rows of its `lists`, {problems} a list of FFNs. `gpus`: how many it takes. `resumes`: it goes on where it was,
    so it may begin with less time than it takes. `asked`: it is measured only where --steps names it, or --gpus enough GPUs."""

    name: str
    seconds: float
    command: str
    lists: tuple = ()
    gpus: int = 1
    resumes: bool = False
    asked: bool = False


PYTHON = "{python} tests/bench/"
LAYERS = PYTHON + "layers/layers.py {out} --budget {left} --cases {cases}"
CONV = PYTHON + "conv_peers.py tests/bench/problems/conv_chains.txt --out {out} --limit 30 --contestants fused_relu,benchmark,linear_relu,compile,sinter --cases {cases}"
STITCH = PYTHON + "stitch/peers.py --out {out} --seconds {left} --only {cases} --peers sinter,torch,torch_max,sinter_kernels,xla"
RANKS = PYTHON + "ranks/ranks.py {out} --parts times,models --rows {sum_rows} --model-rows {model_rows} --seconds {left}"
FFNS = ("gated_ffn", "gemm_chains", "batch_sweep", "random_ffns")
# In the order in which they begin: those that take most first, so that several GPUs end together.
STEPS = (
    *(Step(lists.of_ranks("ranks", n), 320, f"{RANKS} --ranks {n}", (lists.of_ranks("sums", n), lists.of_ranks("ranks-models", n)), gpus=n, asked=n > 2)
      for n in sorted(lists.PUBLISHED_RANKS, reverse=True)),
    Step("models", 540, PYTHON + "torch_backend/run.py {out} --budget {left} --limit 240 --jobs 5 --depth fits --peer-autotune --rows {cases}",
         ("models",), resumes=True),
    Step("training", 480, PYTHON + "torch_backend/training.py {out} --budget {left} --jobs 4 --rows {cases}", ("training",), resumes=True),
    Step("fusionstitching", 540, PYTHON + "torch_backend/training.py {out} --budget {left} --limit 500 --jobs 7 --xla --xla-seconds 25 --rows {cases}",
         ("fusionstitching",), resumes=True),
    Step("encoders", 420, LAYERS, ("encoders",), resumes=True),
    Step("graphs", 540, STITCH, ("graphs",), resumes=True),
    Step("decode", 260, PYTHON + "decode/decode.py --out {out} --seconds {left} --warm 4 --contestants serving,compile,sinter-pdl --cases {cases}",
         ("decode",)),
    Step("products", 180, "{bench} --out {out} --problems {problems}", FFNS),
    Step("ffns", 130, PYTHON + "layers/layers.py {out} --budget {left} --problems {problems}", FFNS, resumes=True),
    Step("experts", 220, PYTHON + "experts/experts.py --out {out} --seconds {left} --contestants sinter,triton --cases {cases}", ("experts",), resumes=True),
    Step("fp8", 250, PYTHON + "scaled_peers.py --out {out} --seconds {left} --cases {cases} "
         "--contestants promoted,fast,cublaslt,promoted-block,deepgemm-block,sinter,sinter-block", ("fp8-rows", "fp8-blocks")),
    Step("layers", 260, LAYERS, ("products", "depthwise", "images"), resumes=True),
    Step("rowwise", 330, LAYERS, ("rowwise",), resumes=True),
    Step("large", 480, STITCH, ("large",), resumes=True),
    Step("conv-1", 15, CONV, ("conv-1",)),
    Step("conv-32", 20, CONV, ("conv-32",)),
    Step("conv-drawn", 20, CONV, ("conv-drawn",)),
)
PATIENCE = 1.5  # times its seconds is a step given at most
SPARE = 5  # seconds at a call's end, to write and to leave
WORTH = 90  # seconds that a step which goes on must have left to begin
NAME = re.compile(r"(?P<card>[a-z]+\d+)-(?P<day>\d{4}-\d\d-\d\d)-(?P<commit>[0-9a-f]{7})-(?P<step>[a-z0-9-]+)\.json")


def step_of(name):
    found = next((step for step in STEPS if step.name == name), None)
    if found is None:
        sys.exit(f"publish: no step is called {name!r}; there are {' '.join(step.name for step in STEPS)}")
    return found


def seconds_of(step, seed, thin):
    """What a step takes, by its share of rows."""
    if thin == 1 or not step.lists:
        return step.seconds
    rows = [len(lists.LISTS[name].wanted(seed, n)) for n in (thin, 1) for name in step.lists]
    return step.seconds * sum(rows[: len(step.lists)]) / sum(rows[len(step.lists) :])


def show(seed, thin=1, steps=STEPS):
    """The plan as text."""
    lines, seconds = [], {step: seconds_of(step, seed, thin) for step in steps}
    for step in steps:
        of = {name: (len(lists.LISTS[name].wanted(seed, thin)), len(lists.LISTS[name].rows(seed))) for name in step.lists}
        rows = ", ".join(f"{name} {n} of {count}{', drawn' if n < count else ''}" for name, (n, count) in of.items())
        command = step.command.replace("{python}", "python3").replace("{bench}", "sinter_bench")
        lines.append(f"{step.name:9} {seconds[step]:4.0f} s{f' on {step.gpus} GPUs' if step.gpus > 1 else ''}{', where they are asked for' if step.asked else ''}, {rows}: {command}")
    minutes = sum(seconds[step] * step.gpus for step in steps if not step.asked) / 60
    return "\n".join([*lines, f"{minutes:.0f} minutes of one card, without steps of more than two GPUs; rows of seed {seed}"])


def cases_of(step, seed, thin=1):
    """The rows of a step as its program takes them."""
    found = []
    for name in step.lists:
        if name != "fp8-blocks" and not name.startswith(("sums", "ranks-models")):  # of one run with fp8-rows; by numbers of rows
            group = f"{name}:" if LAYERS == step.command else ""
            found += [group + row.removesuffix(":rows") for row in lists.LISTS[name].wanted(seed, thin)]
    return ",".join(found)


def write_problems(places, path, seed):
    """The list of FFNs, with the random ones of the seed."""
    lists.main(seed, path)
    more = asked([places["bench"], f"--random-problems={lists.RANDOM_PROBLEMS}", "--seed", str(int(seed, 16))], places["environment"])
    with open(path, "a", encoding="utf-8") as file:
        file.write(more + "\n")


def missing(step, content, seed, thin=1):
    """(list, row) of a step's file that is not there, or lacks the time of a peer and the reason."""
    found = []
    for name in step.lists:
        rows, of = told.told_in(content, step.name, name), lists.LISTS[name]
        found += [(name, row) for row in of.wanted(seed, thin) if row not in rows or rows[row].lacks(of.files[step.name](row))]
    return found


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
    """Whether a results file is there. A broken one is removed, so that its step starts again."""
    readable = content_of(path) is not None
    if not readable and path.exists():
        print(f"publish: {path.name} is broken: removed", flush=True)
        path.unlink()
    return readable


def unmarked(path):
    """Takes out what --measure says in a results file, for the program that goes on with it; the seconds that the file took before."""
    content = json.loads(path.read_text(encoding="utf-8"))
    seconds = content.pop("publish", {"seconds": 0})["seconds"]
    rows_file.write(str(path), content)
    return seconds


def mark(path, step, seed, thin, seconds):
    """Says in a results file what it was measured for; the (list, row) that it lacks."""
    content = json.loads(path.read_text(encoding="utf-8"))
    lacks = missing(step, content, seed, thin)
    of = {name: {"of": len(lists.LISTS[name].rows(seed)), "rows": lists.LISTS[name].wanted(seed, thin)} for name in step.lists}
    content["publish"] = {"step": step.name, "whole": not lacks, "seconds": round(seconds), "seed": seed, "lists": of}
    rows_file.write(str(path), content)
    return lacks


def finished(process, left):
    """The status with which a process ended, or what was done to one that did not."""
    try:
        return process.wait(timeout=max(1, left))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the shell and what it started, which would hold the GPU
        return f"no end in time, {process.wait()}"


def command_of(step, out, places, seed, thin, left):
    problems = out.with_suffix(".problems")
    if "{problems}" in step.command:
        write_problems(places, problems, seed)
    rows = {"sum_rows": lists.ranks_rows(lists.SUMS_DRAWN, seed), "model_rows": lists.ranks_rows(lists.MODELS_DRAWN, seed)}
    rows = {name: ",".join(map(str, of)) for name, of in rows.items()}
    return step.command.format(out=out, left=int(left - SPARE), cases=cases_of(step, seed, thin), problems=problems, **rows, **places)


def run(step, out, places, seed, thin, gpus, left):
    """What the step's file lacks; None where there is no file."""
    environment = {**os.environ, **places["environment"], "CUDA_VISIBLE_DEVICES": ",".join(gpus)}
    command = command_of(step, out, places, seed, thin, left)
    began, before = time.monotonic(), unmarked(out) if is_readable(out) else 0
    with open(out.with_suffix(".log"), "a", encoding="utf-8") as log:
        log.write(f"$ {command}\n")
        log.flush()
        process = subprocess.Popen(command, shell=True, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)
        code = finished(process, left)
        log.write(f"ended with {code}\n")
    return mark(out, step, seed, thin, before + time.monotonic() - began) if is_readable(out) else None


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
    seed, thin = state["commit"][:7], arguments.thin
    takes = lambda step: seconds_of(step, seed, thin)
    path = lambda step: path_of(folder, figures.card_name(name).lower(), seed, step)
    wanted = [step_of(name) for name in arguments.steps.split(",")] if arguments.steps else [step for step in STEPS if not step.asked or step.gpus <= len(gpus)]
    wanted = [step for step in wanted if not is_whole(path(step))]
    for step in [step for step in wanted if step.gpus > len(gpus)]:
        print(f"{step.name}: takes {step.gpus} GPUs: --gpus {','.join(map(str, range(step.gpus)))}", flush=True)
    until = time.monotonic() + arguments.seconds

    def one(step, gpus):
        began, left = time.monotonic(), min(until - time.monotonic(), PATIENCE * takes(step))
        lacks = run(step, path(step), places, seed, thin, gpus, left)
        said = "no file, see its log" if lacks is None else f"{len(lacks)} rows lack, see its log: {lacks[:3]}" if lacks else "whole"
        print(f"{step.name}: {said}, {time.monotonic() - began:.0f} s", flush=True)

    share([step for step in wanted if step.gpus <= len(gpus)], gpus, until, takes, one)
    left = [step.name for step in wanted if not is_whole(path(step))]
    print(f"left: {' '.join(left)}" if left else "nothing is left")
    return 1 if left else 0


def share(steps, gpus, until, takes, run_one):
    """Runs the steps in their order on whichever GPUs are free, those that still fit; returns when all that began have ended."""
    free, waiting, changed = list(gpus), list(steps), threading.Condition()

    def fits(step):
        left = until - time.monotonic()
        return step.gpus <= len(free) and (takes(step) <= left or step.resumes and left >= min(WORTH, takes(step)))

    def run_on(step, taken):
        try:
            run_one(step, taken)
        finally:
            with changed:
                free.extend(taken)
                changed.notify()

    with changed:
        while waiting:
            step = next((step for step in waiting if fits(step)), None)
            if step is None and len(free) == len(gpus):
                return
            if step is None:
                changed.wait()
                continue
            waiting.remove(step)
            free.sort()
            taken, free[: step.gpus] = free[: step.gpus], []
            threading.Thread(target=run_on, args=(step, taken)).start()
        while len(free) < len(gpus):
            changed.wait()


# ---------------------------------------------------------------- Collecting


def refuse_mixed(states):
    """Ends the program unless the files {path: figures.State} are of the commit in their names without changes, and of one kind of card:
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


def shortened(content, step):
    """A file that is not whole, as whole of fewer drawn rows: the first of the draw that are all there. None where the lists want more."""
    publish = content["publish"]
    lacks = set(missing(step, content, publish["seed"]))  # of the whole draw, so also of rows that a thinner run did not want
    for name in step.lists:
        of, order = lists.LISTS[name], publish["lists"][name]["rows"]
        count = next((i for i, row in enumerate(order) if (name, row) in lacks), len(order))
        if count < (of.least or len(order)):
            print(f"publish: {step.name}: {name} has {count} rows before the first that lacks; it must have {of.least or len(order)}")
            return None
        publish["lists"][name]["rows"] = order[:count]
    return {**content, "publish": {**publish, "whole": True}}


def found_in(folder, shorter=()):
    """{step's name: paths, the newest last} of the whole files of each step, and of those of `shorter` that have enough of a draw."""
    found = {}
    for path in sorted(folder.rglob("*.json"), key=lambda path: (path.name, path)):
        match = NAME.fullmatch(path.name)
        content = content_of(path) if match and match["step"] in {step.name for step in STEPS} else None
        if content is not None and match["step"] in shorter and not is_whole(path):
            content = shortened(content, step_of(match["step"]))
            if content is not None:
                rows_file.write(str(path), content)
        if content is not None and is_whole(path):
            found.setdefault(match["step"], []).append(path)
        elif match:
            print(f"publish: {path.name} is not whole, or no step's: left out")
    return found


def named(text, key, target):
    """figures.py's `text` with `target` as the file called `key`."""
    changed, count = re.subn(rf'("{re.escape(key)}": )"[^"]*"', rf'\1"{target}"', text)
    if count != 1:
        sys.exit(f"publish: performance/figures.py names {key!r} {count} times")
    return changed


def collect(arguments):
    found = found_in(arguments.collect, arguments.shorter.split(","))
    refuse_mixed({str(path): figures.state_of(content_of(path)) for paths in found.values() for path in paths})
    found = {name: paths[-1] for name, paths in found.items()}  # of one card and commit, so the names are in the order of days
    names = pathlib.Path(figures.__file__)
    before = text = names.read_text(encoding="utf-8")
    copied = [HERE / "results" / path.name for path in found.values() if not (HERE / "results" / path.name).exists()]
    for name, path in found.items():
        (HERE / "results" / path.name).write_bytes(path.read_bytes())
        text = named(text, name, f"results/{path.name}")
    names.write_text(text, encoding="utf-8")
    status = subprocess.run([sys.executable, "-B", str(HERE / "performance" / "page.py")], check=False).returncode
    if status:  # the page refuses a file: as before
        names.write_text(before, encoding="utf-8")
        for path in copied:
            path.unlink()
        print("publish: nothing is collected: take the files that are refused out of the folder, with those of the same table", flush=True)
        return status
    print(f"collected {', '.join(found)}; read what changes, mend sentences that are no longer so, archive what nothing cites any more", flush=True)
    return 0


# ---------------------------------------------------------------- Archiving


def named_in_code(root):
    """The text of all code of tests and bindings, and of the files that the pages cite."""
    paths = [path for folder in ("tests", "bindings") for ending in ("py", "cc", "h") for path in (root / folder).rglob(f"*.{ending}")]
    return " ".join([*(path.read_text(encoding="utf-8", errors="replace") for path in paths), *figures.FILES.values()])


def told_of(path):
    """A file's line of the archive's list."""
    if path.suffix != ".json":
        return f"| {path.name} |  |  | the output of a program |"
    content = json.loads(path.read_text(encoding="utf-8"))
    state, said = figures.state_of(content), figures.values_of(content, "dirty")
    holds = ", ".join(f"{name} {len(value)}" for name, value in content.items() if isinstance(value, list) and value)
    return f"| {path.name} | {state.commit} | {'yes' if state.dirty else 'no' if said else ''} | {holds} |"


def archive():
    folder, code = HERE / "results", named_in_code(ROOT)
    old = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".txt") and path.name not in code)
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
    parser.add_argument("--thin", type=int, default=1, metavar="N", help="of --list and --measure: one of N rows of lists that may be drawn")
    parser.add_argument("--shorter", default="", help="of --collect: steps that are taken with fewer drawn rows than they were to have")
    parser.add_argument("--seed", default="", help="of --list: seven digits of a commit, by default this one's")
    arguments = parser.parse_args(words)
    if arguments.list:
        print(show(arguments.seed or source_state.of_tree(str(ROOT))["commit"][:7], arguments.thin))
        return 0
    if arguments.archive:
        return archive()
    return measure(arguments) if arguments.measure else collect(arguments)


if __name__ == "__main__":
    sys.exit(main())
