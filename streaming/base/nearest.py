"""Suggest the name that a user meant."""

from bisect import bisect
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final, Literal

from streaming.base.errors import InvalidValueError, UserError
from streaming.base.language import gettext, marked
from streaming.base.limits import NAME_CHARACTERS

COMPARED_MAX: Final = 200
"""A name is compared with at most this many, which takes some 20 ms: anybody may ask for a name that does not exist,
and with each of 10,000 names it would take a second, in which nothing else is answered."""


def closest(name: str, candidates: Iterable[str], *, n: int, cutoff: float = 0.6) -> list[str]:
    """Return at most ``n`` known names that are most like another one, the most similar first.

    Of many names, those are compared that begin, or end, most like it: all that differ in one place are among them.
    ``cutoff`` is the least similarity, from 0 to 1 (difflib's ratio).
    """
    if len(name) > NAME_CHARACTERS:
        return []
    names = list(candidates)
    if len(names) > COMPARED_MAX:
        by_end = (one[::-1] for one in _beside(name[::-1], (one[::-1] for one in names)))
        names = list(dict.fromkeys((*_beside(name, names), *by_end)))
    return get_close_matches(name, names, n=n, cutoff=cutoff)


def _beside(name: str, candidates: Iterable[str]) -> list[str]:
    """Return the names just before and after another one in order: they have the longest common beginning with it."""
    names = sorted(candidates)
    at = bisect(names, name)
    return names[max(0, at - COMPARED_MAX // 4) : at + COMPARED_MAX // 4]


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """Return ``did you mean NAME?`` for the known name that is most like another; None if none is."""
    by_lower = {one.lower(): one for one in candidates}
    near = closest(name.lower(), by_lower, n=1)
    return gettext("did you mean {name}?", name=by_lower[near[0]]) if near else None


def one_of(name: str, value: str, choices: Iterable[str]) -> str:
    """Return the value of a closed set that a user has given, in any case.

    ``name`` is that of the parameter; an empty choice, "any", is not named.

    Raises:
        InvalidValueError: it is none of them.
    """
    allowed = list(choices)
    if (found := next((one for one in allowed if one.lower() == value.lower()), None)) is not None:
        return found
    advice = did_you_mean(value, allowed) or gettext("use one of {choices}.", choices=", ".join(filter(None, allowed)))
    raise InvalidValueError(gettext("Invalid {name} {value}: {advice}", name=name, value=repr(value), advice=advice))


_SEVERAL = {
    "client": marked("{n} clients end with {name}: {some}. Use a longer name."),
    "member": marked("{n} members end with {name}: {some}. Use a longer name."),
}


def full_name(name: str, candidates: Iterable[str], kind: Literal["client", "member"]) -> str | None:
    """Return the known name that is meant by itself or by its end: ``orders-2`` is the end of ``10.0.0.5@orders-2``.

    The end begins after a character that is no letter or digit. None if there is no such name.

    Raises:
        UserError: several names end with it.
    """
    names = list(candidates)
    if name in names:
        return name
    matches = [one for one in names if one.endswith(name) and name and not one[-len(name) - 1].isalnum()]
    if len(matches) > 1:
        some = f"{', '.join(sorted(matches)[:3])}{', …' if len(matches) > 3 else ''}"
        raise UserError(gettext(_SEVERAL[kind], n=len(matches), name=name, some=some))
    return matches[0] if matches else None
