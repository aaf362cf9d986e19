#!/usr/bin/env python3
"""The process in which XLA runs a model that another process made: compiles each form of it as one `jax.jit`, and times the form that is chosen.

    xla_worker.py FOLDER TURN --seconds N

FOLDER holds what `xla_peer.py` wrote: `spec.json`, `values.npz`, `inputs.npz`, `expected.npz`. Compiles with exclusive use of
the GPU, as XLA measures kernels while it compiles: each form of the model by the default setting, then with further settings while `--seconds` are left. Says what it tried as a
line of JSON, then answers {"use": i}, {"time": calls} and {"profile": calls} on its standard input.
"""

import argparse
import json
import os
import pathlib
import queue
import sys
import threading
import time

sys.path.append(str(pathlib.Path(__file__).parents[1] / "stitch"))

WARM_UP, CALLS = 3, 20
#: Of what a command buffer may hold, all that XLA knows, loops too.
COMMANDS = "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,DYNAMIC_SLICE_FUSION,WHILE,CONDITIONAL"
#: Compile options besides XLA's own, which autotune and have Triton's products and command buffers.
SETTINGS = {
    "default": {},
    "graphs": {"xla_gpu_enable_command_buffer": COMMANDS, "xla_gpu_graph_min_graph_size": 1},
    "cuBLAS": {"xla_gpu_enable_triton_gemm": False},
    "cuDNN fusions": {"xla_gpu_cudnn_gemm_fusion_level": 3},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("turn")
    parser.add_argument("--seconds", type=float, default=40, help="of compiling")
    arguments = parser.parse_args()
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print
    requests = queue.Queue()
    threading.Thread(target=listen, args=(requests,), daemon=True).start()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    from gpu_turn import GpuTurn

    worker = Worker(arguments.folder, GpuTurn(arguments.turn, lambda: None))
    answer = {"tried": worker.try_all(arguments.seconds), "jax": worker.jax.__version__}
    while True:
        print(json.dumps(answer), file=told, flush=True)
        (what, value), = requests.get().items()
        answer = getattr(worker, what)(value)


def listen(requests):
    """A process whose starter has gone holds no GPU."""
    for line in sys.stdin:
        requests.put(json.loads(line))
    os._exit(0)


def load(path):
    """{name: array} of a file by ``xla_peer.save``."""
    import ml_dtypes
    import numpy as np

    with np.load(path) as file:
        return {name.removeprefix("bf16:"): file[name].view(ml_dtypes.bfloat16) if name.startswith("bf16:") else file[name] for name in file.files}


class Worker:
    def __init__(self, folder, turn):
        import jax
        import xla_models

        self.jax, self.models, self.turn = jax, xla_models, turn
        self.spec = json.loads((folder / "spec.json").read_text(encoding="utf-8"))
        self.values = load(folder / "values.npz")
        self.expected = load(folder / "expected.npz")
        self.inputs = [jax.device_put(x) for x in load(folder / "inputs.npz").values()]
        self.compiled, self.call = [], None

    # ------------------------------------------------------------ What is tried

    def try_all(self, seconds):
        """What became of each form and setting that was compiled: `us` and `error`, or why it `failed`."""
        forms = self.models.FORMS_TRAINED if self.spec["training"] else self.models.FORMS
        tried = [self.tried(forms[self.spec["model"]][0], "default")]

        def go_on(pairs):
            for form, setting in pairs:
                took = [told["compile_s"] for told in tried if "compile_s" in told]
                if not took or sum(took) + max(took) < seconds:
                    tried.append(self.tried(form, setting))

        go_on((form, "default") for form in forms[self.spec["model"]][1:])
        times = {told["form"]: told["us"] for told in tried if "us" in told}
        fastest_first = sorted(times, key=times.get)
        go_on([(form, "graphs") for form in fastest_first] + [(form, setting) for form in fastest_first[:1] for setting in ("cuBLAS", "cuDNN fusions")])
        return tried

    def tried(self, form, setting):
        told = {"form": form, "setting": setting}
        try:
            lowered = self.lowered(form)
            with self.turn.alone():
                began = time.monotonic()
                compiled = lowered.compile(compiler_options=SETTINGS[setting] if self.spec["gpu"] else None)
                told["compile_s"] = round(time.monotonic() - began, 1)
                call = self.of(compiled)
                told["error"], told["worst"] = self.off(call.first())
                call.timed(WARM_UP)
                told["us"] = min(call.timed(CALLS) for _ in range(3))
            self.compiled.append((told, compiled))
        except Exception as error:  # pylint: disable=broad-except
            told["failed"] = f"{type(error).__name__}: {error}"[:300]
        return told

    def lowered(self, form):
        jax, spec = self.jax, self.spec
        products = jax.numpy.dtype(spec["products"])
        if not spec["training"]:
            return jax.jit(self.models.inference(spec["model"], form, spec["heads"], products)).lower(self.values, *self.inputs)
        step = self.models.step(spec["model"], form, spec["heads"], products)
        return jax.jit(step, donate_argnums=0).lower(jax.eval_shape(self.models.started, *self.split()), *self.inputs)

    def split(self):
        """Parameters and buffers."""
        names = set(self.spec["parameters"])
        return tuple({name: x for name, x in self.values.items() if (name in names) == kept} for kept in (True, False))

    def of(self, compiled):
        return (Step if self.spec["training"] else Inference)(self, compiled)

    def off(self, result):
        """As ``training.off``: the relative distance of all results as one vector, and the largest of a result that is not negligible."""
        jnp = self.jax.numpy
        apart, norms = [], []
        for name, y in self.expected.items():
            y = jnp.asarray(y).ravel()
            apart.append(jnp.linalg.norm(result[name].astype(jnp.float32).ravel() - y))
            norms.append(jnp.linalg.norm(y))
        apart, norms = jnp.stack(apart), jnp.stack(norms)
        counted = norms > 1e-6 * jnp.linalg.norm(norms)
        return float(jnp.linalg.norm(apart) / jnp.linalg.norm(norms)), float(jnp.max(jnp.where(counted, apart / norms, 0)))

    # ------------------------------------------------------------ What is asked for

    def use(self, i):
        """The compiled form that is timed from now on, by its number among those that did not fail; the others go."""
        self.turn.take()
        told, compiled = self.compiled[i]
        self.compiled, self.expected = [], None
        self.call = self.of(compiled)
        self.call.timed(WARM_UP)
        self.turn.give()
        return told

    def time(self, calls):
        return {"us": self.call.timed(calls)}

    def profile(self, calls):
        import profiled

        try:
            return profiled.profile(lambda i: self.call(), self.call.wait, calls)
        except Exception as error:  # pylint: disable=broad-except
            return {"failed": f"{type(error).__name__}: {error}"[:300]}


class Call:
    """Calls of a compiled model. What the call before gave is let go first, so that its memory is the next one's."""

    def __init__(self, worker, compiled):
        self.jax, self.compiled, self.inputs, self.result = worker.jax, compiled, worker.inputs, None

    def wait(self):
        self.jax.block_until_ready(self.result)

    def timed(self, calls):
        """Wall time of a call in microseconds. Calls are enqueued back to back, so the host enqueues while the device computes."""
        self.wait()
        began = time.perf_counter()
        for _ in range(calls):
            self()
        self.wait()
        return (time.perf_counter() - began) * 1e6 / calls


class Inference(Call):
    def __init__(self, worker, compiled):
        super().__init__(worker, compiled)
        self.values = self.jax.device_put(worker.values)

    def __call__(self):
        self.result = None
        self.result = self.compiled(self.values, *self.inputs)

    def first(self):
        self()
        return {"logits": self.result}


class Step(Call):
    """A step of training, whose state takes the place of the state before it."""

    def __init__(self, worker, compiled):
        super().__init__(worker, compiled)
        self.decay = worker.models.BETAS[0]
        self.state = worker.models.started(*(self.jax.device_put(values) for values in worker.split()))

    def __call__(self):
        state, self.state, self.result = self.state, None, None
        self.state, self.result = self.compiled(state, *self.inputs)

    def first(self):
        """The gradients, by the first moments after one step."""
        self()
        return {name: x / (1 - self.decay) for name, x in self.state["first"].items()}


if __name__ == "__main__":
    main()
