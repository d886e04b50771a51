"""Choose of all combinations of a test's parameters as few as have each value of each."""

from collections.abc import Iterable, Mapping

import pytest

Parameters = tuple[str | tuple[str, ...], Iterable[object]]
"""The arguments of `pytest.mark.parametrize`: a name, or several, and the values."""


def is_in_short_form(chosen: Mapping[str, object], parameters: Iterable[Parameters]) -> bool:
    """Return whether a combination is the first values together, or the second ones together, and so on.

    Of a shorter list the values begin again, until each of the longest has been taken.
    """
    places = [_place(chosen, *each) for each in parameters]
    turns = range(max(size for _, size in places))
    return any(all(at == turn % size for at, size in places) for turn in turns)


def _place(chosen: Mapping[str, object], names: str | tuple[str, ...], values: Iterable[object]) -> tuple[int, int]:
    """Return the number of the chosen value, and how many there are."""
    names = (names,) if isinstance(names, str) else names
    every = [_by_name(value, len(names)) for value in values]
    return every.index(tuple(chosen[name] for name in names)), len(every)


def _by_name(value: object, names: int) -> tuple[object, ...]:
    if isinstance(value, type(pytest.param())):
        return tuple(value.values)
    return (value,) if names == 1 else tuple(value)
