"""Arithmetic on embeddings, in pure Python."""

import math
from collections.abc import Sequence
from operator import mul

from agentv.types.provider import Vector


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors, -1..1.

    Raises ValueError for vectors of different lengths and for a zero vector, which has no direction.

    >>> cosine([1.0, 0.0], [1.0, 1.0])
    0.7071067811865475
    """
    if len(first) != len(second):
        raise ValueError(f"one vector has {len(first)} numbers, the other {len(second)}")
    lengths = math.hypot(*first), math.hypot(*second)
    if not all(lengths):
        raise ValueError("a vector of zeros has no direction")
    product = math.fsum(map(mul, first, second)) / lengths[0] / lengths[1]
    return min(1.0, max(-1.0, product))


def vectors_problem(vectors: Sequence[Vector], *, texts: int) -> str | None:
    """Return what is wrong with the vectors of `texts` texts, as a phrase; None when nothing is."""
    if len(vectors) != texts:
        return f"{len(vectors)} vectors for {texts} texts"
    if len({len(vector) for vector in vectors}) > 1:
        return "vectors of different lengths"
    if any(not vector for vector in vectors):
        return "a vector without numbers"
    # A sum of 32-bit numbers cannot overflow 64 bits, so it is finite exactly if all numbers are.
    if not all(math.isfinite(sum(vector)) for vector in vectors):
        return "a number in a vector that is not finite"
    return None
