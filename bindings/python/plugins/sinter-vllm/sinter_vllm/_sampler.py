"""Draws vLLM's tokens by plans: the largest logit of each row, or a draw by temperature, top_k of at most 64 and top_p.

vLLM has two samplers, one for each of its model runners. Both get a batch whose requests may differ. vLLM draws if a request has a penalty, a
bias, a mask, min_p, a seed or top_p without top_k, and, in the older runner, if one asks for log probabilities. It also draws for a model on
several GPUs. SINTER_VLLM_SAMPLER=0 leaves all draws to vLLM.
"""

from __future__ import annotations

import inspect
import os
from typing import Any, Callable, Optional, Sequence

from ._guard import Switch

VARIABLE = "SINTER_VLLM_SAMPLER"


def watch(servers: Any, log: str) -> None:
    """Makes plans draw tokens, from now on. `log`: the logger that reports the first draw."""
    if os.environ.get(VARIABLE, "") == "0":
        return
    plans = _Plans(servers, log)
    for replace in (_replace, _replace_older):
        try:
            replace(servers, plans)
        except Exception as error:  # such as a sampler of another structure
            servers.stay_away("vLLM's sampler", str(error))


class _Plans:
    """Draws by plans on a single rank: ranks of a model draw for themselves, and a plan may be ready on one before it is on another."""

    def __init__(self, servers: Any, log: str) -> None:
        self._servers, self._log = servers, log
        self._ranks = 0
        self._told = False
        #: What a function returns; None if it fails, as with a sampler of another structure than the known ones, and from then on.
        self.guarded = Switch(servers, "vLLM's sampler")

    def draw(self, logits: Any, requests: Any = None, most: int = 0) -> Any:
        """See ``servers.draw_tokens``."""
        if self._ranks == 0:
            from vllm.distributed import get_tensor_model_parallel_world_size

            self._ranks = get_tensor_model_parallel_world_size()
        if self._ranks != 1:
            return None
        tokens = self._servers.draw_tokens(logits, requests, most)
        if tokens is not None and not self._told:
            self._told = True
            self._servers.report(self._log, "vLLM's sampler draws its tokens by plans")
        return tokens


def _has(function: Callable[..., Any], names: Sequence[str], servers: Any) -> bool:
    """Whether `function` takes these arguments and is not replaced yet."""
    if getattr(function, "is_sinters", False):
        return False
    if list(inspect.signature(function).parameters)[: len(names)] == list(names):
        return True
    servers.stay_away(f"vLLM's {function.__qualname__}", "it takes other arguments")
    return False


# ---- The model runner V2


def _replace(servers: Any, plans: _Plans) -> None:
    from vllm.v1.worker.gpu.sample.sampler import Sampler

    own = Sampler.sample
    if not _has(own, ("self", "logits", "expanded_idx_mapping", "idx_mapping_np"), servers):
        return

    def sample(self: Any, logits: Any, expanded_idx_mapping: Any, idx_mapping_np: Any, *arguments: Any, **named: Any) -> Any:
        tokens = plans.guarded(lambda: _draw(self, logits, expanded_idx_mapping, idx_mapping_np, servers.Requests, plans))
        if tokens is not None:
            return tokens.long(), logits
        return own(self, logits, expanded_idx_mapping, idx_mapping_np, *arguments, **named)

    sample.is_sinters = True  # type: ignore[attr-defined]
    Sampler.sample = sample


def reason_against(sampler: Any, logits: Any, requests: Any) -> str:
    """Why vLLM draws; "" if a plan may. `requests`: numpy, the places of the batch's requests in the sampler's states."""
    states = sampler.sampling_states
    if len(logits) != len(requests):
        return "a request has several rows"
    if sampler.logprobs_mode != "raw_logprobs":
        return "log probabilities are computed after top_k and top_p"
    if sampler.use_fp64_gumbel:
        return "noise is of float64"
    if sampler.penalties_state.use_penalty[requests].any():
        return "a request has penalties"
    if sampler.logit_bias_state.use_logit_bias[requests].any():
        return "a request has a bias of logits, or allowed tokens"
    if sampler.bad_words_state.num_bad_words.np[requests].any():
        return "a request has bad words"
    if states.min_p.np[requests].any():
        return "a request has min_p"
    if states.any_explicit_seed(requests):
        return "a request has a seed"
    return ""


def _draw(sampler: Any, logits: Any, rows: Any, requests: Any, asked: Any, plans: _Plans) -> Any:
    if reason_against(sampler, logits, requests):
        return None
    states = sampler.sampling_states
    drawn = requests[states.temperature.np[requests] > 0]  # others are greedy, and vLLM gives them no bounds
    if not len(drawn):
        return plans.draw(logits)
    most = int(states.top_k.np[drawn].max())
    if most < states.vocab_size:
        return plans.draw(logits, asked(states.temperature.gpu, states.top_k.gpu, states.top_p.gpu, rows.int()), most)
    if (states.top_k.np[drawn] < most).any() or (states.top_p.np[drawn] != 1).any():
        return None
    return plans.draw(logits, asked(states.temperature.gpu, rows=rows.int()))


# ---- The older model runner


def _replace_older(servers: Any, plans: _Plans) -> None:
    from vllm.v1.outputs import SamplerOutput
    from vllm.v1.sample.sampler import Sampler
    from vllm.v1.worker.gpu_input_batch import InputBatch

    own, make = Sampler.forward, InputBatch._make_sampling_metadata
    if not _has(own, ("self", "logits", "sampling_metadata", "predict_bonus_token"), servers) or not _has(make, ("self",), servers):
        return

    def make_sampling_metadata(self: Any) -> Any:
        made = make(self)
        plans.guarded(lambda: _note_largest_k(self, made))
        return made

    def forward(self: Any, logits: Any, sampling_metadata: Any, predict_bonus_token: bool = False, *arguments: Any, **named: Any) -> Any:
        if not (predict_bonus_token or arguments or named):
            tokens = plans.guarded(lambda: _draw_older(self, logits, sampling_metadata, servers.Requests, plans))
            if tokens is not None:
                return SamplerOutput(sampled_token_ids=tokens.unsqueeze(-1), logprobs_tensors=None)
        return own(self, logits, sampling_metadata, predict_bonus_token, *arguments, **named)

    make_sampling_metadata.is_sinters = forward.is_sinters = True  # type: ignore[attr-defined]
    Sampler.forward, InputBatch._make_sampling_metadata = forward, make_sampling_metadata


def _note_largest_k(batch: Any, made: Any) -> None:
    """Notes the largest top_k of the requests that are not greedy in their metadata."""
    if made.top_k is not None:
        drawn = batch.temperature_cpu[: batch.num_reqs] > 0
        made.sinter_most = int(batch.top_k_cpu[: batch.num_reqs][drawn].max(initial=1))


def reason_against_older(sampler: Any, given: Any) -> str:
    """Why vLLM draws; "" if a plan may. `given`: the batch's SamplingMetadata."""
    if given.max_num_logprobs is not None or given.logprob_token_ids:
        return "a request asks for log probabilities"
    if sampler.use_fp64_gumbel:
        return "noise is of float64"
    if not given.no_penalties:
        return "a request has penalties"
    if given.allowed_token_ids_mask is not None or given.bad_words_token_ids:
        return "a request has allowed tokens or bad words"
    if given.generators:
        return "a request has a seed"
    holder = given.thinking_budget_state_holder
    if holder is not None and holder.has_tracked_requests():
        return "a request has a budget for thinking"
    for processor in (*given.logitsprocs.argmax_invariant, *given.logitsprocs.non_argmax_invariant):
        if _acts(processor):
            return f"{type(processor).__name__} changes logits"
    if not given.all_greedy and given.top_p is not None and given.top_k is None:
        return "a request has top_p without top_k"
    if given.top_k is not None and getattr(given, "sinter_most", None) is None:
        return "the largest top_k is not known"
    return ""


#: vLLM's own processors of logits, and what is empty or 0 while they change nothing.
_PROCESSORS = {"MinPLogitsProcessor": "min_p_count", "LogitBiasLogitsProcessor": "biases", "MinTokensLogitsProcessor": "min_toks"}


def _acts(processor: Any) -> bool:
    state: Optional[str] = _PROCESSORS.get(type(processor).__name__)
    return state is None or bool(getattr(processor, state))


def _draw_older(sampler: Any, logits: Any, given: Any, asked: Any, plans: _Plans) -> Any:
    if reason_against_older(sampler, given):
        return None
    if given.all_greedy:
        return plans.draw(logits)
    if given.top_k is None:
        return plans.draw(logits, asked(given.temperature))
    top_p = given.top_p if given.top_p is not None else given.temperature.new_ones(len(given.temperature))
    return plans.draw(logits, asked(given.temperature, given.top_k, top_p), given.sinter_most)
