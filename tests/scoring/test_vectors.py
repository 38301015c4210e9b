"""Arithmetic on embeddings."""

import math
from array import array

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentv.scoring.text.vectors import cosine, vectors_problem

vectors = st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3)


@given(vectors, vectors)
def test_a_cosine_is_symmetric_and_stays_within_its_bounds(first: list[float], second: list[float]) -> None:
    assume(any(first) and any(second))
    assert -1.0 <= cosine(first, second) <= 1.0
    assert cosine(first, second) == pytest.approx(cosine(second, first), abs=1e-12)


@given(vectors, st.floats(1e-6, 1e6))
def test_a_vector_has_the_direction_of_its_multiples(vector: list[float], factor: float) -> None:
    assume(any(abs(number) > 1e-30 for number in vector))
    assert cosine(vector, [number * factor for number in vector]) == pytest.approx(1.0, abs=1e-9)
    assert cosine(vector, [-number * factor for number in vector]) == pytest.approx(-1.0, abs=1e-9)


def test_the_cosine_of_a_right_angle_is_zero() -> None:
    assert cosine([3.0, 0.0], [0.0, 0.5]) == 0.0


def test_tiny_vectors_have_a_direction() -> None:
    assert cosine([1e-40, 0.0], [1e-40, 0.0]) == 1.0


def test_a_zero_vector_points_nowhere() -> None:
    with pytest.raises(ValueError, match="has no direction"):
        cosine([0.0, 0.0], [1.0, 0.0])


def test_vectors_of_different_spaces_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="one vector has 1 numbers, the other 2"):
        cosine([1.0], [1.0, 0.0])


@pytest.mark.parametrize(
    ("given_vectors", "problem"),
    [
        ([[1.0]], "1 vectors for 2 texts"),
        ([[1.0], [1.0], [1.0]], "3 vectors for 2 texts"),
        ([[1.0], [1.0, 2.0]], "vectors of different lengths"),
        ([[], []], "a vector without numbers"),
        ([[1.0], [math.nan]], "a number in a vector that is not finite"),
        ([[math.inf, -math.inf], [1.0, 1.0]], "a number in a vector that is not finite"),
        ([[1.0], [0.0]], None),
        ([[3.4e38] * 1000, [3.4e38] * 1000], None),
    ],
)
def test_vectors_that_cannot_be_are_named(given_vectors: list[list[float]], problem: str | None) -> None:
    assert vectors_problem([array("f", vector) for vector in given_vectors], texts=2) == problem
