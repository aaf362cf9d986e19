"""Folds a norm's weight into the matrix that follows it, so that the product computes the whole norm."""

from __future__ import annotations

from typing import Iterator, Sequence, Tuple

import torch

#: Rows of a matrix that are multiplied at once, which keeps the temporary memory small.
_ROWS = 1024
#: The rounding error that folding may cause, relative to the matrix: twice the rounding of bf16.
_ROUNDING = 4e-3

#: A norm's weight [hidden], and the matrix [columns, hidden] that follows the norm.
Pair = Tuple[torch.Tensor, torch.Tensor]


def folds(pairs: Sequence[Pair]) -> bool:
    """Whether all pairs fold without overflow, and with at most twice the rounding error of bf16."""
    with torch.no_grad():
        verdicts = [_folds(norm, matrix) for norm, matrix in pairs]
        return not verdicts or bool(torch.stack(verdicts).all().item())


def fold(pairs: Sequence[Pair]) -> None:
    """Multiplies each norm's weight into its matrix, in place, and sets it to one: together they compute the same."""
    with torch.no_grad():
        for norm, matrix in pairs:
            for rows, exact in _products(norm, matrix):
                rows.copy_(exact)
            norm.fill_(1)


def _products(norm: torch.Tensor, matrix: torch.Tensor) -> "Iterator[Tuple[torch.Tensor, torch.Tensor]]":
    """Blocks of rows of the matrix, and the folded rows in f32."""
    for rows in torch.split(matrix.detach(), _ROWS):
        yield rows, rows.float() * norm.detach().float()


def _folds(norm: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    error, total = torch.zeros((), device=matrix.device), torch.zeros((), device=matrix.device)
    for rows, exact in _products(norm, matrix):
        error += (exact.to(rows.dtype).float() - exact).square().sum()
        total += exact.square().sum()
    return torch.isfinite(error) & (error <= _ROUNDING**2 * total)
