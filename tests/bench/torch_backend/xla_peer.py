"""XLA next to PyTorch's contestants: a process that runs the JAX form of a model (`xla_models.py`) as one `jax.jit`, with its weights and inputs."""

import importlib.util
import json
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import threading

#: Models of `training_models.py` that have a form in JAX.
MODELS = ("bert_base", "transformer", "dien", "asr", "crnn")
LONGER = 5  # times as many calls as a CUDA graph's replays, as the wall's clock counts the first launch and the wait for the last
PROFILED = 10  # calls
PATIENCE = 400  # seconds for what it tries, in which others use the GPU too


class Absent(Exception):
    """Why XLA has no time."""


def heads_of(model):
    """How many heads a model's attention has; 1 where it has none."""
    heads = getattr(getattr(getattr(model, "model", None), "config", None), "num_attention_heads", None)
    return heads or next((x.num_heads for x in model.modules() if hasattr(x, "num_heads")), 1)


def laid(x):
    """A tensor as the JAX model takes it: images and filters with channels last, as XLA would copy others in each call."""
    return (x.permute(0, 2, 3, 1) if x.ndim == 4 else x).detach().cpu().contiguous()


def save(path, tensors):
    """Writes {name: tensor} for ``xla_worker.load``: bf16 as 16 bits under a name that says so, ids in 32 bits."""
    import numpy as np
    import torch

    found = {}
    for name, x in tensors.items():
        x = laid(x)
        if x.dtype is torch.bfloat16:
            found[f"bf16:{name}"] = x.view(torch.uint16).numpy()
        else:
            found[name] = x.to(torch.int32).numpy() if x.dtype is torch.int64 else x.numpy()
    np.savez(path, **found)


class XlaInRow:
    """XLA in a row of `run.py` and `training.py`: works from ``start`` to ``join`` while the row's other contestants do. Why it has no time stands in
    the row's `without`."""

    def __init__(self, name, turn, seconds):
        self.name, self.turn, self.seconds = name, turn, seconds
        self.peer, self.why = None, ""

    def start(self, model, inputs, expected, training):
        try:
            self.peer = XlaPeer(self.name, model, inputs, expected, training, self.turn, self.seconds)
        except Absent as error:
            self.why = str(error)

    def join(self, result, graphs, bound, turn):
        """Into `result` and among the contestants, `graphs`."""
        try:
            if self.peer is None:
                raise Absent(self.why)
            with turn.waiting():
                told = self.peer.ready(bound, PATIENCE)
            result["variants"]["xla"], graphs["xla"] = {**told, "first_error": told["error"]}, self.peer
        except Absent as error:
            result.setdefault("without", {})["xla"] = str(error)

    def close(self):
        if self.peer is not None:
            self.peer.close()


class XlaPeer:
    """`model` as it is measured, `inputs` as it takes them; `expected`: {name: result that XLA's are held against}, of gradients by the names of
    parameters where `training`, else of `logits`. Starts at once, and works while its starter does until `ready` is called."""

    def __init__(self, name, model, inputs, expected, training, turn, seconds=40, products="bfloat16"):
        if name not in MODELS:
            raise Absent("the model has no form in JAX")
        if importlib.util.find_spec("jax") is None:
            raise Absent("jax is not installed")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="xla_peer."))
        parameters = dict(model.named_parameters())
        buffers = {n: x for n, x in model.named_buffers() if x.is_floating_point()}
        save(self.folder / "values.npz", {**parameters, **buffers})
        save(self.folder / "inputs.npz", {f"{i:02}": x for i, x in enumerate(inputs)})
        save(self.folder / "expected.npz", {n: x.float() for n, x in expected.items()})
        spec = {"model": name, "training": training, "heads": heads_of(model), "parameters": list(parameters), "products": products,
                "gpu": inputs[0].is_cuda}  # fmt: skip
        (self.folder / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
        command = [sys.executable, str(pathlib.Path(__file__).with_name("xla_worker.py")), str(self.folder), turn, "--seconds", str(seconds)]
        self.errors = open(self.folder / "errors", "w+", encoding="utf-8")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.answers = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.answers.put(json.loads(line))
        self.answers.put(None)

    def answer(self, seconds):
        try:
            found = self.answers.get(timeout=seconds)
        except queue.Empty:
            raise Absent(f"no answer within {seconds:.0f} s") from None
        if found is None:
            self.errors.seek(0)
            raise Absent(f"its process ended with {self.process.wait()}: {self.errors.read()[-300:].strip()}")
        return found

    def ask(self, seconds=120, **request):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says why
        return self.answer(seconds)

    def ready(self, bound, seconds):
        """Takes the fastest form whose error is at most `bound`, and returns its fields of the results file. The caller must not hold the GPU."""
        told = self.answer(seconds)
        tried = told["tried"]
        ran = [one for one in tried if "us" in one]
        right = [one for one in ran if one["error"] <= bound]
        if not right:
            why = (one.get("failed") or f"wrong: error {one['error']:.1e}" for one in tried)
            raise Absent("; ".join(f"{one['form']} {one['setting']}: {said}" for one, said in zip(tried, why))[:600])
        best = min(right, key=lambda one: one["us"])
        self.ask(use=ran.index(best))
        return {**{name: best[name] for name in ("form", "setting", "compile_s", "error", "worst")}, "jax": told["jax"], "tried": tried}

    def timed(self, count):
        """As ``run.timed`` of a graph."""
        return self.ask(time=count * LONGER)["us"]

    def profiled(self):
        """As ``run.profiled`` of a graph, with the number of copies among them."""
        try:
            told = self.ask(profile=PROFILED)
        except Absent as error:
            return {"failed": str(error)}
        return told if "failed" in told else {"kernels": told["kernels"] + told["copies"], "us": told["us"], "copies": told["copies"]}

    def close(self):
        self.process.kill()
        self.process.wait()
        self.errors.close()
        shutil.rmtree(self.folder, ignore_errors=True)
