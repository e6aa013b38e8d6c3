"""Array types of this package, log-softmax, and helpers for token arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def log_softmax(logits: Floats) -> Floats:
    """Logarithm of the softmax over the last axis; same shape as `logits`."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))  # type: ignore[no-any-return]


def take_tokens(values: Floats, tokens: Ints) -> Floats:
    """`values[..., tokens]` along the last axis: (N, L, V) and (N, L) give (N, L)."""
    return np.take_along_axis(values, tokens[..., None], axis=-1)[..., 0]


def one_hot(tokens: Ints, size: int, dtype: npt.DTypeLike) -> Floats:
    """Rows of the identity matrix: (...,) gives (..., size)."""
    return np.eye(size, dtype=dtype)[tokens]
