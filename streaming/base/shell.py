"""Command lines that a user copies into a shell, and a variable that one may set there."""

from shlex import quote
from typing import Final

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
