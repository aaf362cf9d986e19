#!/usr/bin/env python3
"""The models of xla_models.py against PyTorch's, in float32 on the CPU: logits, gradients and AdamW's steps; and which of XLA's forms is timed."""

import contextlib
import importlib.util
import queue
import unittest
from unittest import mock

import xla_peer

ABSENT = [name for name in ("torch", "transformers", "jax") if importlib.util.find_spec(name) is None]
if not ABSENT:
    import jax
    import jax.numpy as jnp
    import numpy as np
    import torch

    import xla_models
    from training_models import MODELS, SMALL

CPU_FORMS = ("plain", "2", "all")  # what runs without a GPU


def small(name):
    sizes = dict(SMALL[name])
    torch.manual_seed(1)
    model, draw = MODELS[name][0](sizes.pop("batch"), 0.0, **sizes)
    for p in model.parameters():  # zeros and ones would hide a term that is missing
        torch.nn.init.normal_(p, std=0.1) if p.ndim == 1 else None
    return model, draw()


def given(x):
    return jnp.asarray(xla_peer.laid(x).numpy())


def as_jax(model):
    parameters = {name: given(x) for name, x in model.named_parameters()}
    return parameters, {name: jnp.asarray(x.numpy()) for name, x in model.named_buffers() if x.is_floating_point()}


def forms_of(name):
    return [form for form in CPU_FORMS if (form == "plain") == (name in ("bert_base", "transformer"))]


def off(result, expected):
    return float(np.linalg.norm(np.asarray(result) - expected) / np.linalg.norm(expected))


def cases(count=None):
    return [(name, form) for name in xla_models.MODELS for form in forms_of(name)[:count]]


@unittest.skipIf(ABSENT, f"{', '.join(ABSENT)} is not installed")
class Models(unittest.TestCase):
    def test_logits_are_torchs(self):
        for name, form in cases():
            with self.subTest(name, form=form):
                self.logits_are_torchs(name, form)

    def logits_are_torchs(self, name, form):
        model, inputs = small(name)
        expected = model.eval()(*inputs).detach().numpy()
        parameters, buffers = as_jax(model)
        call = jax.jit(xla_models.inference(name, form, xla_peer.heads_of(model), jnp.float32))
        self.assertLess(off(call({**parameters, **buffers}, *map(given, inputs)), expected), 1e-5)

    def test_steps_have_torchs_losses_gradients_and_weights(self):
        for name, form in cases(1):
            with self.subTest(name, form=form):
                self.steps_are_torchs(name, form)

    def steps_are_torchs(self, name, form):
        model, inputs = small(name)
        parameters, buffers = as_jax(model.train())
        state = xla_models.started(parameters, buffers)
        call = jax.jit(xla_models.step(name, form, xla_peer.heads_of(model), jnp.float32))
        optimizer = torch.optim.AdamW(model.parameters(), lr=xla_models.RATE)
        start = {n: p.detach().clone() for n, p in model.named_parameters()}
        for i in range(3):
            optimizer.zero_grad()
            loss = model(*inputs)
            loss.backward()
            optimizer.step()
            state, found = call(state, *map(given, inputs))
            self.assertLess(abs(float(found) / loss.item() - 1), 1e-5)
            if i == 0:
                whole = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
                counted = [n for n, p in model.named_parameters() if p.grad.norm() > 1e-5 * whole]  # keys' biases have none but rounding
                for n, p in model.named_parameters():
                    self.assertLess(off(state["first"][n] * 10, xla_peer.laid(p.grad).numpy()) if n in counted else 0, 1e-3, n)
        for n, p in model.named_parameters():
            moved = xla_peer.laid(p - start[n]).numpy()
            self.assertLess(off(state["parameters"][n] - given(start[n]), moved) if n in counted else 0, 2e-2, n)
        for n, x in model.named_buffers():
            if n in state["buffers"]:
                self.assertLess(off(state["buffers"][n], x.numpy()), 1e-4, n)


class Choice(unittest.TestCase):
    """Needs neither JAX nor PyTorch."""

    def peer(self, *tried):
        peer, self.asked = object.__new__(xla_peer.XlaPeer), []
        peer.answers = queue.Queue()
        peer.answers.put({"tried": list(tried), "jax": "0"})
        peer.ask = lambda **request: self.asked.append(request)
        return peer

    def tried(self, form, us, error):
        return {"form": form, "setting": "default", "compile_s": 1.0, "us": us, "error": error, "worst": error}

    def test_the_fastest_right_form_is_timed(self):
        ran = self.tried("plain", 9.0, 1e-3), self.tried("1", 5.0, 1.0), self.tried("8", 7.0, 1e-3)
        peer = self.peer({"form": "cudnn", "setting": "default", "failed": "no"}, *ran)
        self.assertEqual(peer.ready(2e-3, 1)["form"], "8")
        self.assertEqual(self.asked, [{"use": 2}])  # of those that ran

    def test_without_a_right_form_the_row_says_why(self):
        row = xla_peer.XlaInRow("dien", "turn", 1)
        row.peer = self.peer({"form": "1", "setting": "default", "failed": "no memory"}, self.tried("8", 7.0, float("nan")))
        result, graphs = {"variants": {}}, {}
        row.join(result, graphs, 2e-3, mock.Mock(waiting=contextlib.nullcontext))
        self.assertEqual((result, graphs), ({"variants": {}, "without": {"xla": "1 default: no memory; 8 default: wrong: error nan"}}, {}))

    def test_a_model_without_a_form_and_a_process_that_ends_are_reasons(self):
        row, result = xla_peer.XlaInRow("gpt2", "turn", 1), {"variants": {}}
        row.start(None, (), {}, training=True)
        row.join(result, {}, 2e-3, mock.Mock(waiting=contextlib.nullcontext))
        self.assertEqual(result["without"], {"xla": "the model has no form in JAX"})
        peer = object.__new__(xla_peer.XlaPeer)
        peer.answers, peer.process, peer.errors = queue.Queue(), mock.Mock(wait=lambda: 1), mock.Mock(read=lambda: "Unknown flag")
        peer.answers.put(None)
        with self.assertRaisesRegex(xla_peer.Absent, "ended with 1: Unknown flag"):
            peer.answer(1)


if __name__ == "__main__":
    unittest.main()
