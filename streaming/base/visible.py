"""Foreign texts (names, remarks of servers) on a terminal: none may clear it, colour it or write its title."""

import json
import re

_NEITHER_ASCII_NOR_LINE = re.compile(r"[^\n\x20-\x7e]")


def visible(text: str) -> str:
    """Return the text with non-printable characters (escapes, line ends) as Python escape sequences."""
    return text if text.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def visible_lines(text: str) -> str:
    """Return the text of several lines with its other non-printable characters as Python escape sequences."""
    return "\n".join(map(visible, text.split("\n")))


def visible_json(text: str) -> str:
    r"""Return the same JSON with non-printable characters as \u….

    JSON itself escapes only those below U+0020; some terminals obey those from U+0080 to U+009F, too.
    """
    return _NEITHER_ASCII_NOR_LINE.sub(lambda one: one[0] if one[0].isprintable() else json.dumps(one[0])[1:-1], text)
