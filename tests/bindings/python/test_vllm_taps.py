"""vLLM's plugin on models whose states between layers a drafting model asks for (EAGLE 3), against stand-ins."""

import logging

import pytest

torch = pytest.importorskip("torch")

from test_plugins import Model, clean, close, vllm  # noqa: F401
from test_vllm_scaled import Wide, make, plain, rows  # noqa: F401

TAPS = 2, 18, 33


@pytest.mark.parametrize("quantizer", ["", "row"])
@pytest.mark.parametrize("taps", [TAPS, (0, 1, 35, 36)])
def test_states_between_layers_are_the_plans_streams(make, quantizer, taps):
    own, wanted = plain(make(quantizer, count=36, taps=taps))
    make.register()
    taken = make(quantizer, count=36, taps=taps)
    result, states = taken(*rows())
    assert all(hasattr(layer, "sinter_after") for layer in taken.layers[:-1])
    assert len(states) == len(wanted) == len(taps) and close(result, own)
    for one, other in zip(states, wanted):
        assert one.shape == other.shape and close(one, other)


def test_a_state_between_layers_costs_no_kernel(make, monkeypatch):
    make.register()
    taken = make("", count=6, taps=(2, 5))
    taken(*rows())
    streams, own = [], Wide.forward

    def forward(self, positions, hidden_states, residual):
        result = own(self, positions, hidden_states, residual)
        streams.append(result[1])
        return result

    monkeypatch.setattr(Wide, "forward", forward)
    _, (state, copied) = taken(*rows())
    assert state is streams[1]
    assert copied is not streams[4] and torch.equal(copied, streams[4])  # the last layer's norm may write over it


def test_states_between_layers_are_compiled_in_one_graph(make):
    own, wanted = plain(make("", count=4, taps=(1, 2)))
    make.register()
    taken = make("", count=4, taps=(1, 2))
    taken(*rows())
    torch._dynamo.reset()
    step = torch.compile(taken.forward, backend="aot_eager", fullgraph=True, dynamic=True)
    result, states = step(*rows())
    assert close(result, own) and all(close(one, other) for one, other in zip(states, wanted))


def test_states_between_layers_above_every_plan_are_vllms(make):
    own, wanted = plain(make("", count=4, taps=(1, 3)), 50)
    make.register()
    taken = make("", count=4, taps=(1, 3))
    taken(*rows())
    result, states = taken(*rows(50))
    assert close(result, own) and all(close(one, other) for one, other in zip(states, wanted))


def test_a_model_that_keeps_states_otherwise_is_vllms(make, caplog, monkeypatch):
    make.register()
    taken = make("", taps=(1,))
    monkeypatch.setattr(type(taken), "_maybe_add_hidden_state", lambda self, states, idx, hidden_states: states)
    monkeypatch.setattr(type(taken), "forward", Model.forward)
    with caplog.at_level(logging.WARNING, "sinter"):
        taken(*rows())
    assert "states between layers are asked for, and vLLM does not keep them by _maybe_add_hidden_state" in caplog.text
    assert not any(hasattr(layer, "sinter_after") for layer in taken.layers)
