"""Suggest the name that a user meant."""

from bisect import bisect
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final, Literal

from streaming.base.errors import UserError
from streaming.base.language import gettext, marked

COMPARED_MAX: Final = 200
"""A name is compared with at most this many, which takes some 20 ms: anybody may ask for a name that does not exist,
and with each of 10,000 names it would take a second, in which nothing else is answered."""


def closest(name: str, known: Iterable[str], *, n: int, cutoff: float = 0.6) -> list[str]:
    """Return the known names that are most like another one, the most similar first.

    Of many names, those are compared that begin, or end, most like it: all that differ in one place are among them.

    Args:
        name: the name that is not known.
        known: the known names.
        n: how many to return at most.
        cutoff: how similar they are at least, from 0 to 1 (difflib's ratio).
    """
    names = list(known)
    if len(names) > COMPARED_MAX:
        by_end = (one[::-1] for one in _beside(name[::-1], (one[::-1] for one in names)))
        names = list(dict.fromkeys((*_beside(name, names), *by_end)))
    return get_close_matches(name, names, n=n, cutoff=cutoff)


def _beside(name: str, known: Iterable[str]) -> list[str]:
    """Return the names just before and after another one in order: they have the longest common beginning with it."""
    names = sorted(known)
    at = bisect(names, name)
    return names[max(0, at - COMPARED_MAX // 4) : at + COMPARED_MAX // 4]


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return ``did you mean NAME?`` for the known name that is most like another; None if none is."""
    by_lower = {one.lower(): one for one in known}
    near = closest(name.lower(), by_lower, n=1)
    return gettext("did you mean {name}?", name=by_lower[near[0]]) if near else None


_SEVERAL = {
    "client": marked("{n} clients end with {name}: {some}. Use a longer name."),
    "member": marked("{n} members end with {name}: {some}. Use a longer name."),
}


def full_name(name: str, known: Iterable[str], kind: Literal["client", "member"]) -> str | None:
    """Return the known name that is meant by itself or by its end: ``orders-2`` is the end of ``10.0.0.5@orders-2``.

    The end begins after a character that is no letter or digit. None if there is no such name.

    Args:
        name: what the user has written.
        known: the known names.
        kind: what they are.

    Raises:
        UserError: several names end with it.
    """
    names = list(known)
    if name in names:
        return name
    found = [one for one in names if one.endswith(name) and name and not one[-len(name) - 1].isalnum()]
    if len(found) > 1:
        some = f"{', '.join(sorted(found)[:3])}{', …' if len(found) > 3 else ''}"
        raise UserError(gettext(_SEVERAL[kind], n=len(found), name=name, some=some))
    return found[0] if found else None
