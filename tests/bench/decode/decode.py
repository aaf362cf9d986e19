#!/usr/bin/env python3
"""A whole decoding step of language models in one CUDA graph: Sinter, PyTorch's compiler and cuBLAS.

Usage: decode.py --out FILE.json [--models A,B] [--rows 1,8] [--contestants X,Y] ..    needs PyTorch, Triton and a Hopper GPU

Ends with 0 when all was right, 1 when something failed, 2 for a command line that is wrong, 77 without a GPU.
"""

import argparse
import concurrent.futures
import os
import subprocess
import sys
import time

from models import ALL, MIXTURES, MODELS
from variants import OPAQUE, flags_of, torch_of

CONTESTANTS = "serving,compile,sinter,sinter-pdl,sinter-split-pdl"


def model_names(text):
    found = text.split(",")
    for name in found:
        if name not in ALL:
            raise argparse.ArgumentTypeError(f"no model is called {name!r}; there are {' '.join(ALL)}")
    return found


def case_names(text):
    """{model: numbers of rows}."""
    found = {}
    for word in text.split(","):
        name, _, rows = word.partition("@")
        found.setdefault(*model_names(name), []).extend(numbers(rows))
    return found


def contestant_names(text):
    found = text.split(",")
    try:
        for name in found:
            if not torch_of(name):
                flags_of(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return found


def numbers(text):
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        found = [0]
    if min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers of 1 or more")
    return found


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="results file; required but for --warm-only")
    parser.add_argument("--cases", type=case_names, default={}, help="MODEL@ROWS with commas between, instead of models and rows")
    parser.add_argument("--models", type=model_names, default=list(MODELS), help="names from models.py, by default all but mixtures of experts")
    parser.add_argument("--rows", type=numbers, default=[1, 8, 32, 64, 128], help="rows of a step, M")
    parser.add_argument("--contexts", type=numbers, default=[1024], help="positions that attention reads")
    parser.add_argument("--contestants", type=contestant_names, default=CONTESTANTS.split(","),
                        help="eager serving compile max-autotune, sinter[-split|-unfused][-folded][-pdl]; of mixtures of experts "
                             "compile-triton sinter-plugin; with -fp8 or -fp8-block "
                             "compile, max-autotune and, before -pdl, sinter; compile-fp8-fast")
    parser.add_argument("--early", action=argparse.BooleanOptionalAction, default=True,
                        help="attention's kernels let the next kernel begin: it can load weights where its edge is programmatic")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contestant; the median counts")
    parser.add_argument("--turn", type=float, default=0.02, help="seconds of a turn")
    parser.add_argument("--energy", type=float, default=0.0, help="seconds that each contestant's energy is measured for")
    parser.add_argument("--timeline", action="store_true", help="store some of each contestant's kernels with their times")
    parser.add_argument("--slack", type=float, default=1.5, help="an error may be so many times that of PyTorch's operators")
    parser.add_argument("--seconds", type=float, default=600.0, help="no case begins later")
    parser.add_argument("--warm", type=int, default=0, metavar="N", help="fill the compilers' caches first, N processes at once")
    parser.add_argument("--warm-only", action="store_true", help="fill the caches for the cases, one after another, and end")
    options = parser.parse_args(arguments)
    options.models = list(options.cases) or options.models
    options.cases = options.cases or {name: options.rows for name in options.models}
    if not options.warm_only and not options.out:
        parser.error("--out is missing")
    dense = [name for name in options.contestants if name in OPAQUE]
    if dense and not set(options.models) <= MIXTURES.keys():
        parser.error(f"{dense[0]} computes mixtures of experts: name --models, such as {' '.join(MIXTURES)}")
    apart = [name for name in options.contestants if any(word in name for word in ("split", "folded", "fp8"))]
    if apart and MIXTURES.keys() & set(options.models):
        parser.error(f"{apart[0]} computes no mixture of experts: name --contestants, such as serving,compile,sinter,sinter-pdl")
    return options


# ---------------------------------------------------------------- Caches


def warm_command(model, rows, contestants):
    return [sys.executable, "-B", os.path.abspath(__file__), "--warm-only", "--models", model, "--rows", str(rows),
            "--contestants", ",".join(contestants)]


def warm(options):
    """Compiles what contestants of PyTorch need, a process for each model and number of rows. Its failures show up later."""
    compiled = [name for name in options.contestants if torch_of(name) and torch_of(name)[0] not in ("eager", "serving")]
    if not compiled:
        return
    begin = time.perf_counter()
    commands = [warm_command(model, rows, compiled) for model, of in options.cases.items() for rows in of]
    threads = max(1, (os.cpu_count() or 1) // min(options.warm, len(commands)))
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": str(threads)}
    run = lambda command: subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
    with concurrent.futures.ThreadPoolExecutor(options.warm) as pool:
        list(pool.map(run, commands))
    print(f"compiled in {time.perf_counter() - begin:.0f} s", flush=True)


def main(arguments):
    options = parse(arguments)
    try:
        import torch
    except ImportError:
        print("decode.py: no PyTorch")
        return 77
    if not torch.cuda.is_available():
        print("decode.py: no GPU")
        return 77
    import case  # PyTorch and Triton

    if options.warm_only:
        case.warm_only(options)
        return 0
    if options.warm:
        warm(options)
    return 0 if case.run_cases(options) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
