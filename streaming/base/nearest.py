"""Suggest the name that a user meant."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return ``did you mean NAME?`` for the known name that is most like another; None if none is."""
    by_lower = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), by_lower, n=1)
    return f"did you mean {by_lower[near[0]]}?" if near else None
