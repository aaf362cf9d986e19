"""How far the results of two engines are apart: log probabilities of the tokens that may follow the same prompts.

An engine tells the most probable tokens after each prompt, {token: log probability}. Prompts are computed one at a time, so a prompt of
eight tokens is a step of eight rows.
"""

import itertools
import math


def distance(left, right):
    """What two lists of answers have in common: the share of tokens that both have, the root mean square of the differences of their log
    probabilities, and the share of prompts whose most probable token is the same."""
    squares, both, all_of_them, first = 0.0, 0, 0, 0
    for one, other in zip(left, right):
        common = one.keys() & other.keys()
        squares += sum((one[token] - other[token]) ** 2 for token in common)
        both += len(common)
        all_of_them += len(one)
        first += max(one, key=one.get) == max(other, key=other.get)
    return {"common": both / all_of_them, "rms": math.sqrt(squares / both) if both else None, "same_first": first / len(left)}


def rows(told):
    """Rows of the results file, one for two contestants. `told`: {contestant: answers}."""
    return [{"contestant": one, "against": other, **distance(told[one], told[other])} for one, other in itertools.combinations(told, 2)]
