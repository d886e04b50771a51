"""Foreign texts (names, remarks of servers) on a terminal: none may clear it, colour it or write its title."""

import json
import re

from streaming.base.limits import ECHO_CHARACTERS, SENTENCE_CHARACTERS

_LONG_WORD = re.compile(rf"(\S{{{ECHO_CHARACTERS}}})\S+")
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


def shortened(sentence: str) -> str:
    """Return an error with each of its words cut, which repeat what somebody has sent."""
    return _LONG_WORD.sub(r"\1…", sentence)


def shortened_whole(sentence: str) -> str:
    """Return the same for whoever has no other limit on what comes back: cut as a whole, too."""
    words = shortened(sentence)
    return words if len(words) <= SENTENCE_CHARACTERS else f"{words[:SENTENCE_CHARACTERS]}…"
