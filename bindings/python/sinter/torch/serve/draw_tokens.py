"""Tokens drawn from a server's logits, by a plan of ``sinter.next_token`` that is built in the background."""

from __future__ import annotations

from functools import lru_cache
from typing import Dict, NamedTuple, Optional, Tuple

import torch

from ..._builder import Builder
from ..._chain import Chain
from ..._error import Error
from ..._functions import argmax, gather
from ..._operators import maximum, next_token
from ..._shape import M
from ..runtime.buckets import BUCKETS, bucket
from ..runtime.launch import dense, launch
from ..runtime.register import FLOATS
from ..runtime.registered_chain import register_chain
from ..runtime.run_chain import Place
from ..runtime.store import chains, store
from ..runtime.warn import warn_once

#: How many of the largest logits plans draw from. A plan serves requests whose k is at most its count.
COUNTS = (32, 64)

_DRAWS = 256  # offsets that are made at once

#: Plans by device, chain and bucket of rows.
_places: Dict[Tuple[int, str, int], Place] = {}
store.when_dropped(_places.clear)


class Requests(NamedTuple):
    """What the requests of a batch ask for, as tensors on the GPU with an element for each request.

    Attributes:
        temperature: f32; 0 takes the largest logit.
        k: s32; None: no request has one.
        top_p: f32.
        rows: s32, the request of each row of logits; None: row i is request i.
    """

    temperature: torch.Tensor
    k: Optional[torch.Tensor] = None
    top_p: Optional[torch.Tensor] = None
    rows: Optional[torch.Tensor] = None


def draw_tokens(logits: torch.Tensor, requests: Optional[Requests], most: int = 0) -> Optional[torch.Tensor]:
    """A token for each row of logits; None, with nothing enqueued, if the server must draw: the plan is being built, or there is none.

    Args:
        logits: [rows, vocabulary], of a floating type of 16 or 32 bits.
        requests: None: the largest logit of each row is taken.
        most: the largest k of these requests; above 0, k and top_p are there.

    Returns:
        s32 [rows]; 0 for a row with NaN.
    """
    if reason_against_draw(logits, most):
        return None
    if requests is not None and torch.cuda.is_current_stream_capturing():
        return None  # each replay of a graph would draw the same numbers
    rows, vocabulary = logits.shape
    count = next((count for count in COUNTS if most <= count), 0) if most else 0
    held = len(requests.temperature) if requests is not None and requests.rows is not None else 0
    key = _key(vocabulary, FLOATS[logits.dtype], None if requests is None else count, held)
    device = logits.device.index
    try:
        plan = _place(device, key, rows).look(None)
        if plan is None:
            return None
        tokens = torch.empty(rows, dtype=torch.int32, device=logits.device)
        given = [dense(logits)]
        if requests is not None:
            bounds = (requests.k, requests.top_p) if count else ()
            rows_of = () if requests.rows is None else (requests.rows,)
            given += [dense(value) for value in (requests.temperature, *bounds, *rows_of) if value is not None]
            given += _draws(device).next(rows * vocabulary)
        launch(plan, tuple(value.data_ptr() for value in (*given, tokens)), rows, device)
        return tokens
    except Error as error:
        warn_once(f"the server draws its tokens: {error}")
        return None


def reason_against_draw(logits: torch.Tensor, most: int) -> str:
    """Why no plan draws from these logits; "" if a plan may. `most`: as in ``draw_tokens``."""
    if logits.dim() != 2 or logits.dtype not in FLOATS or not logits.is_cuda:
        return f"logits are {logits.dtype} {tuple(logits.shape)} on {logits.device}"
    if not 1 <= logits.shape[0] <= BUCKETS[-1]:
        return f"there are {logits.shape[0]} rows"
    if most > min(COUNTS[-1], logits.shape[1]):
        return f"a request draws from {most} logits, at most {COUNTS[-1]} are sorted"
    return ""


@lru_cache(maxsize=None)
def _key(vocabulary: int, dtype: str, count: Optional[int], requests: int) -> str:
    return register_chain(chain_of_draw(vocabulary, dtype, count, requests))


def chain_of_draw(vocabulary: int, dtype: str, count: Optional[int], requests: int = 0) -> Chain:
    """The chain of a draw: logits, then, if `count` is not None, temperature, if it is above 0 k and top_p, with `requests` above 0 the
    request of each row, then seed and offset -> tokens.

    Args:
        count: the largest logits that are drawn from; 0: all; None: the first of the largest is taken.
        requests: the extent of what requests ask for; 0: they are the rows.
    """
    b = Builder()
    logits = b.input(dtype, (M, vocabulary))
    if count is None:
        return b.finish(argmax(logits))
    held = (requests or M,)
    asked = [b.input("f32", held)]
    if count:
        asked += [b.input("s32", held), b.input("f32", held)]
    if requests:
        rows = b.input("s32", (M,))
        asked = [gather(value, rows, axis=0) for value in asked]
    seed, offset = b.input("s64", ()), b.input("s64", ())
    k, top_p = (asked[1], asked[2]) if count else (None, None)
    token, _ = next_token(logits, seed, offset, count=count, temperature=asked[0], k=k, top_p=top_p)
    return b.finish(maximum(token, b.scalar(0, "s32")))


def _place(device: int, key: str, rows: int) -> Place:
    at = device, key, bucket(rows)
    return _places.get(at) or _places.setdefault(at, Place(device, chains[key], BUCKETS[at[2]], None))


class _Draws:
    """Seed and offsets of draws on a device. Each draw has counters of its own, and its offset lies in memory that is never rewritten, so
    launches that are still running keep theirs."""

    def __init__(self, device: int) -> None:
        self._device = torch.device("cuda", device)
        self._seed = torch.tensor([torch.initial_seed() % 2**63, 0], dtype=torch.int64, device=self._device)
        self._offsets: "list[torch.Tensor]" = []
        self._begin = self._step = 0

    def next(self, counters: int) -> "list[torch.Tensor]":
        """Seed and offset of a draw that uses so many counters."""
        if not self._offsets or counters > self._step:
            self._step = max(self._step, counters)
            made = self._begin + self._step * torch.arange(_DRAWS, dtype=torch.int64, device=self._device)
            self._begin += self._step * _DRAWS
            self._offsets = list(torch.stack((made, made), 1).flip(0))
        return [self._seed, self._offsets.pop()]


@lru_cache(maxsize=None)
def _draws(device: int) -> _Draws:
    return _Draws(device)
