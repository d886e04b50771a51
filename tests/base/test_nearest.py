"""The name that a user meant, out of few or many."""

import pytest

from streaming.base import nearest
from streaming.base.nearest import COMPARED_MAX, closest, did_you_mean

MANY = [f"team-{number:04}-orders-{number % 10}-service" for number in range(10_000)]


@pytest.fixture
def compared(monkeypatch):
    """Return how many names each search was compared with."""
    counts, search = [], nearest.get_close_matches

    def counting(name, names, **how):
        counts.append(len(names))
        return search(name, names, **how)

    monkeypatch.setattr(nearest, "get_close_matches", counting)
    return counts


@pytest.mark.parametrize(
    "mistyped",
    [
        "tem-4711-orders-1-service",
        "Team-4711-orders-1-service",
        "team-4711-order-1-service",
        "team-4711-orders-1-servic",
        "team-4711-orders-1-servcie",
        "xteam-4711-orders-1-service",
    ],
)
def test_of_many_names_the_one_that_differs_in_one_place_is_found(mistyped, compared):
    assert did_you_mean(mistyped, MANY) == "did you mean team-4711-orders-1-service?"
    assert compared[0] <= COMPARED_MAX


def test_few_names_are_all_compared(compared):
    known = ["orders", *(f"x-{number}" for number in range(COMPARED_MAX - 1))]
    assert closest("0rder5", known, n=1) == ["orders"]
    assert did_you_mean("0rder5", known) == "did you mean orders?"
    assert compared == [COMPARED_MAX, COMPARED_MAX]


def test_the_most_similar_names_come_first():
    assert closest("twins", ["twine", "other", "twin"], n=3, cutoff=0.5) == ["twin", "twine"]
    assert did_you_mean("zebra", ["twin", "other"]) is None
