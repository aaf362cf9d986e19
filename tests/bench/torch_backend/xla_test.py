#!/usr/bin/env python3
"""The models of xla_models.py against PyTorch's, in float32 on the CPU: logits, gradients, and what AdamW makes of them."""

import importlib.util
import sys
import unittest

ABSENT = [name for name in ("torch", "transformers", "jax") if importlib.util.find_spec(name) is None]
if not ABSENT:
    import jax
    import jax.numpy as jnp
    import numpy as np
    import torch

    import xla_models
    import xla_peer
    from training_models import MODELS, SMALL

CPU_FORMS = ("plain", "2", "all")  # what runs without a GPU


def small(name):
    sizes = dict(SMALL[name])
    torch.manual_seed(1)
    model, draw = MODELS[name][0](sizes.pop("batch"), 0.0, **sizes)
    for p in model.parameters():  # zeros and ones would hide a term that is missing
        torch.nn.init.normal_(p, std=0.1) if p.ndim == 1 else None
    return model, draw()


def as_jax(model):
    parameters = {name: jnp.asarray(x.detach().numpy()) for name, x in model.named_parameters()}
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
        self.assertLess(off(call({**parameters, **buffers}, *map(jnp.asarray, map(np.asarray, inputs))), expected), 1e-5)

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
            state, found = call(state, *(jnp.asarray(np.asarray(x)) for x in inputs))
            self.assertLess(abs(float(found) / loss.item() - 1), 1e-5)
            if i == 0:
                whole = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
                counted = [n for n, p in model.named_parameters() if p.grad.norm() > 1e-5 * whole]  # keys' biases have none but rounding
                for n, p in model.named_parameters():
                    self.assertLess(off(state["first"][n] * 10, p.grad.numpy()) if n in counted else 0, 1e-3, n)
        for n, p in model.named_parameters():
            moved = (p - start[n]).detach().numpy()
            self.assertLess(off(np.asarray(state["parameters"][n]) - start[n].numpy(), moved) if n in counted else 0, 2e-2, n)
        for n, x in model.named_buffers():
            if n in state["buffers"]:
                self.assertLess(off(state["buffers"][n], x.numpy()), 1e-4, n)


if __name__ == "__main__":
    unittest.main()
