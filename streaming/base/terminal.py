"""Foreign texts (names, remarks of servers) on a terminal, and command lines that a user copies into a shell."""

import json
import re
from shlex import quote
from typing import Final

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
    """Return a sentence in which each word, and the whole, is shortened: for answers without another limit."""
    words = shortened(sentence)
    return words if len(words) <= SENTENCE_CHARACTERS else f"{words[:SENTENCE_CHARACTERS]}…"


CONFIG_VARIABLE: Final = "REBALANCE_WATCH_CONFIG"
"""The variable that names the user's settings file."""


def command_line(*words: str) -> str:
    """Return a command line that a shell splits into exactly these words.

    Names of groups, topics and clients come from anybody: none may end the command or start another one, and none may
    write to the terminal. A word with control characters is written as ``$'…'`` (bash, ksh, zsh).
    """
    return " ".join(map(_quoted, words))


def group_argument(group: str) -> tuple[str, ...]:
    """Return the words that name a group to a command of ours: with -g where it would be taken for an option."""
    return ("-g", group) if group.startswith("-") else (group,)


def _quoted(word: str) -> str:
    return quote(word) if word.isprintable() else f"$'{''.join(map(_escaped, word))}'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
