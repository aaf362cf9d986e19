"""vLLM's plugin on the samplers of both model runners, against stand-ins."""

import itertools
import logging
import types

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")

from sinter import Context
from sinter.torch import servers
from sinter.torch.serve import draw_tokens
from everyday import sampled
from test_plugins import clean, vllm  # noqa: F401

VOCABULARY = 50
LOGITS = torch.arange(6 * VOCABULARY).view(6, VOCABULARY).remainder(37).bfloat16()
PLACES = numpy.array([4, 1, 5])  # of requests in the states of the sampler


@pytest.fixture
def drawn(monkeypatch):
    """The calls that draw; each gets token 3."""
    calls = []

    def draw(logits, requests, most=0):
        calls.append((logits, requests, most))
        return torch.full((len(logits),), 3, dtype=torch.int32)

    monkeypatch.setattr(servers, "draw_tokens", draw)
    return calls


def both(values, dtype):
    """A state of the sampler, which numpy and the GPU see."""
    return types.SimpleNamespace(np=numpy.array(values), gpu=torch.tensor(values, dtype=dtype))


def sampler(kind, temperature=0.6, k=20, p=0.9, **changed):
    """A sampler that knows six requests. Its third request, which no batch has, asks for something else."""
    six = lambda value, other: [value, value, other, value, value, value]
    states = types.SimpleNamespace(
        vocab_size=VOCABULARY,
        temperature=both(six(temperature, 2.0), torch.float32),
        top_k=both(six(k, 33), torch.int32),
        top_p=both(six(p, 0.1), torch.float32),
        min_p=both(six(0.0, 0.5), torch.float32),
        seeds_set=numpy.array(six(False, True)),
    )
    states.any_explicit_seed = lambda places: bool(states.seeds_set[places].any())
    made = kind()
    made.sampling_states = states
    made.penalties_state = types.SimpleNamespace(use_penalty=numpy.array(six(False, True)))
    made.logit_bias_state = types.SimpleNamespace(use_logit_bias=numpy.array(six(False, True)))
    made.bad_words_state = types.SimpleNamespace(num_bad_words=both(six(0, 1), torch.int32))
    for name, value in changed.items():
        setattr(made, name, value)
    return made


def sample(made, rows=3, places=PLACES):
    logits = LOGITS[:rows]
    tokens, processed = made.sample(logits, torch.tensor(places[:rows]), places, None, None, None)
    assert tokens.dtype == torch.int64 and tokens.shape == (rows,)
    return int(tokens[0])


@pytest.mark.parametrize("temperature, k, p, most", [(0.6, 20, 0.9, 20), (0.6, 20, 1.0, 20), (1.0, VOCABULARY, 1.0, 0), (0.0, VOCABULARY, 1.0, 0)])
def test_requests_are_drawn_by_a_plan(vllm, drawn, temperature, k, p, most):
    import sinter_vllm

    sinter_vllm.register()
    sinter_vllm.register()
    made = sampler(vllm.samplers[0], temperature, k, p)
    assert sample(made) == 3
    ((logits, requests, told),) = drawn
    assert torch.equal(logits, LOGITS[:3]) and told == most
    if temperature == 0:
        assert requests is None
        return
    assert requests.rows.dtype == torch.int32 and requests.rows.tolist() == PLACES.tolist()
    assert requests.temperature is made.sampling_states.temperature.gpu
    assert (requests.k is made.sampling_states.top_k.gpu) == (requests.top_p is made.sampling_states.top_p.gpu) == (most > 0)


def test_a_batch_of_greedy_and_other_requests_is_drawn(vllm, drawn):
    import sinter_vllm

    sinter_vllm.register()
    made = sampler(vllm.samplers[0])
    made.sampling_states.temperature.np[4] = 0
    made.sampling_states.top_k.np[4] = VOCABULARY
    assert sample(made) == 3 and drawn[0][1].temperature is made.sampling_states.temperature.gpu and drawn[0][2] == 20


def test_a_batch_with_and_without_top_k_is_vllms(vllm, drawn):
    import sinter_vllm

    sinter_vllm.register()
    made = sampler(vllm.samplers[0])
    made.sampling_states.top_k.np[4] = VOCABULARY
    assert sample(made) == 7 and not drawn


def change(name, place=4):
    def apply(made):
        at = made
        for part in name.split("."):
            at = getattr(at, part)
        at[place] = 1

    return apply


REFUSED = {
    "penalties": change("penalties_state.use_penalty"),
    "bias": change("logit_bias_state.use_logit_bias"),
    "bad words": change("bad_words_state.num_bad_words.np"),
    "min_p": change("sampling_states.min_p.np"),
    "seed": change("sampling_states.seeds_set"),
    "mode": lambda made: setattr(made, "logprobs_mode", "processed_logprobs"),
    "float64": lambda made: setattr(made, "use_fp64_gumbel", True),
    "top_p without top_k": lambda made: made.sampling_states.top_k.np.fill(VOCABULARY),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_no_plan_draws_is_vllms(vllm, drawn, why):
    import sinter_vllm

    sinter_vllm.register()
    made = sampler(vllm.samplers[0])
    REFUSED[why](made)
    assert sample(made) == 7 and not drawn


def test_requests_outside_of_the_batch_do_not_matter(vllm, drawn):
    import sinter_vllm

    sinter_vllm.register()
    assert sample(sampler(vllm.samplers[0]), places=numpy.array([2, 1, 5])) == 7
    assert sample(sampler(vllm.samplers[0]), places=numpy.array([3, 1, 5])) == 3


def test_several_rows_of_a_request_are_vllms(vllm, drawn):
    import sinter_vllm

    sinter_vllm.register()
    made = sampler(vllm.samplers[0])
    made.sample(LOGITS[:4], torch.tensor([4, 4, 1, 5]), PLACES, None, None, None)
    assert not drawn


def test_a_sampler_of_another_structure_is_vllms(vllm, drawn, caplog):
    import sinter_vllm

    sinter_vllm.register()
    made = sampler(vllm.samplers[0])
    del made.sampling_states.min_p
    with caplog.at_level(logging.WARNING, "sinter"):
        assert sample(made) == 7 and sample(sampler(vllm.samplers[0])) == 7 and not drawn
    assert caplog.text.count("vLLM's sampler keeps its own path: AttributeError") == 1


def test_a_model_on_several_gpus_is_vllms(vllm, drawn):
    """A plan may be ready on one rank before it is on another, and ranks must draw the same tokens."""
    import sinter_vllm

    sinter_vllm.register()
    vllm.ranks = 2
    assert sample(sampler(vllm.samplers[0])) == 7 and forward(vllm) == 7 and not drawn


def test_vllm_draws_while_there_is_no_plan(vllm, monkeypatch):
    import sinter_vllm

    sinter_vllm.register()
    assert sample(sampler(vllm.samplers[0])) == 7  # no plan is for logits on a CPU


def test_the_sampler_can_be_switched_off(vllm, drawn, monkeypatch):
    import sinter_vllm

    monkeypatch.setenv("SINTER_VLLM_SAMPLER", "0")
    sinter_vllm.register()
    assert sample(sampler(vllm.samplers[0])) == 7 and not drawn


def test_a_sampler_of_other_arguments_is_vllms(vllm, drawn, monkeypatch, caplog):
    import sinter_vllm

    monkeypatch.setattr(vllm.samplers[0], "sample", lambda self, batch: 7)
    with caplog.at_level(logging.WARNING, "sinter"):
        sinter_vllm.register()
    assert "it takes other arguments" in caplog.text and vllm.samplers[0]().sample(1) == 7


# ---- The older model runner


def metadata(**changed):
    processors = types.SimpleNamespace(argmax_invariant=[], non_argmax_invariant=[])
    given = dict(
        temperature=torch.full((3,), 0.6), all_greedy=False, top_k=torch.tensor([5, 20, 9]), top_p=torch.full((3,), 0.9), generators={},
        max_num_logprobs=None, logprob_token_ids=None, no_penalties=True, allowed_token_ids_mask=None, bad_words_token_ids={},
        logitsprocs=processors, thinking_budget_state_holder=None,
    )  # fmt: skip
    return types.SimpleNamespace(**{**given, **changed})


def forward(vllm, **changed):
    _, kind, batch = vllm.samplers
    made = batch()
    made.metadata, made.num_reqs, made.top_k_cpu = metadata(**changed), 3, numpy.array([VOCABULARY, 20, 9, 64])
    made.temperature_cpu = numpy.array([0.0, 0.6, 0.6, 0.6])
    output = kind().forward(LOGITS[:3], made._make_sampling_metadata())
    assert output.sampled_token_ids.shape == (3, 1) and output.logprobs_tensors is None
    return int(output.sampled_token_ids[0, 0])


def test_the_older_sampler_draws_by_a_plan(vllm, drawn):
    import sinter_vllm

    sinter_vllm.register()
    assert forward(vllm) == 3 and drawn[0][2] == 20
    assert forward(vllm, top_p=None) == 3 and drawn[1][1].top_p.tolist() == [1, 1, 1]
    assert forward(vllm, top_k=None, top_p=None) == 3 and drawn[2][1].k is None and drawn[2][2] == 0
    assert forward(vllm, all_greedy=True, temperature=None) == 3 and drawn[3][1] is None


def test_an_older_batch_of_another_structure_is_vllms(vllm, drawn, caplog):
    import sinter_vllm

    sinter_vllm.register()
    _, kind, batch = vllm.samplers
    made = batch()
    made.metadata, made.num_reqs = metadata(), 3
    with caplog.at_level(logging.WARNING, "sinter"):
        output = kind().forward(LOGITS[:3], made._make_sampling_metadata())
    assert int(output.sampled_token_ids[0, 0]) == 7 and not drawn
    assert "vLLM's sampler keeps its own path: AttributeError" in caplog.text


class MinPLogitsProcessor:
    min_p_count = 0


@pytest.mark.parametrize(
    "changed",
    [
        {"max_num_logprobs": 0}, {"logprob_token_ids": {0: [1]}}, {"no_penalties": False}, {"allowed_token_ids_mask": 1},
        {"bad_words_token_ids": {0: [[1]]}}, {"generators": {0: 1}}, {"top_k": None},
        {"thinking_budget_state_holder": types.SimpleNamespace(has_tracked_requests=lambda: True)},
        {"logitsprocs": types.SimpleNamespace(argmax_invariant=[object()], non_argmax_invariant=[])},
    ],
)  # fmt: skip
def test_what_no_plan_draws_is_the_older_samplers(vllm, drawn, changed):
    import sinter_vllm

    sinter_vllm.register()
    assert forward(vllm, **changed) == 7 and not drawn


def test_a_processor_of_vllm_that_changes_nothing_does_not_matter(vllm, drawn, monkeypatch):
    import sinter_vllm

    sinter_vllm.register()
    processors = types.SimpleNamespace(argmax_invariant=[MinPLogitsProcessor()], non_argmax_invariant=[])
    assert forward(vllm, logitsprocs=processors) == 3
    monkeypatch.setattr(MinPLogitsProcessor, "min_p_count", 1)
    assert forward(vllm, logitsprocs=processors) == 7


# ---- The draw


DRAWS = itertools.product([(None, 1), (0, 4), (32, 6), (64, 6)], [0, 256])


@pytest.mark.parametrize("count_inputs, requests", sampled(DRAWS, 3))
def test_chains_of_draws_have_plans(count_inputs, requests):
    count, inputs = count_inputs
    chain = draw_tokens.chain_of_draw(128256, "bf16", count, requests)
    assert len(chain.inputs()) == inputs + (requests > 0 and count is not None)
    assert Context(target="h200").prepare(chain, m=8).kernel_count <= 4


def test_logits_that_no_plan_draws_from_are_named():
    reason = draw_tokens.reason_against_draw
    assert "on cpu" in reason(LOGITS, 0)
    on_gpu = types.SimpleNamespace(dim=lambda: 2, dtype=torch.bfloat16, is_cuda=True, shape=(4, 50), device="cuda:0")
    assert reason(on_gpu, 20) == ""
    assert reason(on_gpu, 65) == reason(on_gpu, 51).replace("51", "65") == "a request draws from 65 logits, at most 64 are sorted"


def test_each_draw_has_counters_of_its_own(monkeypatch):
    monkeypatch.setattr(torch, "device", lambda *_: "cpu")
    draws = draw_tokens._Draws(0)
    end, seen = 0, 0
    for turn in range(600):
        counters = 40 if turn < 300 else 100
        seed, offset = draws.next(counters)
        assert seed[0] == torch.initial_seed() % 2**63 and offset.data_ptr() % 16 == 0
        assert int(offset[0]) >= end
        end, seen = int(offset[0]) + counters, seen + 1
    assert seen == 600
