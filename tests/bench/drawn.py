"""Draws the rows of a long list that are measured, and numbers of rows that no list has. Only a hash decides, so nobody chooses.

The seed is the commit that is measured, which is known only once the code is written.
"""

import hashlib
import math


def place(seed, name):
    """A number in 0 .. 1 that looks random, the same on every machine."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def order(listed, seed, name=str):
    """All ids of {id: group} in an order whose first n, for every n, are a draw of n: one of each group first, then of each group its share.
    `name`: what is hashed of an id."""
    ranked, at = [], {row: place(seed, name(row)) for row in listed}
    for group in dict.fromkeys(listed.values()):
        ids = sorted((row for row in listed if listed[row] == group), key=at.get)
        ranked += [(i > 0, (i + 0.5) / len(ids), at[row], row) for i, row in enumerate(ids)]
    return [row for *_, row in sorted(ranked)]


def rows(seed, what, most=8192):
    """A number of rows between 1 and `most`, each octave as likely as the next."""
    return max(1, round(2 ** (place(seed, f"rows of {what}") * math.log2(most))))
