"""Suggest the name that a user meant."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Literal

from streaming.base.errors import UserError
from streaming.base.language import gettext, marked


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return ``did you mean NAME?`` for the known name that is most like another; None if none is."""
    by_lower = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), by_lower, n=1)
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
