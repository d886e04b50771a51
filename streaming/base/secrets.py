"""Read what a setting or the file that it names holds, and remove secrets from texts that others have written."""

import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from streaming.base.errors import SettingsError

if TYPE_CHECKING:
    from pydantic import SecretStr

_PIECE = 6
"""Length of the pieces of a secret that are removed; a shorter secret is removed as a whole."""


class Redaction:
    """The secrets that a text must not have, in any of the forms in which a server may repeat them."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form.lower() for secret in secrets for form in _forms(secret)}
        self._pieces = {
            form[at : at + _PIECE] for form in forms for at in range(max(1, len(form) - _PIECE + 1)) if form.strip()
        }
        self._lengths = sorted({len(piece) for piece in self._pieces})

    def of(self, text: str) -> str:
        """Return the text with each piece of a secret replaced by …, and white space made one blank."""
        text = " ".join(text.replace("\\", "").split())
        low, hidden = text.lower(), set[int]()
        for length in self._lengths:
            for at in range(len(low) - length + 1):
                if low[at : at + length] in self._pieces:
                    hidden.update(range(at, at + length))
        return re.sub("\0+", "…", "".join("\0" if at in hidden else sign for at, sign in enumerate(text)))


def _forms(secret: str) -> Iterator[str]:
    yield from (secret, unquote(secret), quote(secret), quote(secret, safe=""))
    yield b64encode(secret.encode()).decode().rstrip("=")
    kind, _, credentials = secret.partition(" ")
    if credentials:  # "Bearer …", "Basic …"
        yield credentials
    if kind.lower() == "basic":
        try:
            yield b64decode(credentials, validate=True).decode("utf-8", "replace")
        except Error:
            return


def secret_of(name: str, value: "SecretStr", file: str) -> str:
    """Return a secret, given by the setting of this name or by a file, without blanks around it; empty if by neither.

    Raises:
        SettingsError: both are given, or the file can't be read.
    """
    if value.get_secret_value() and file:
        raise SettingsError(f"Both {name} and {name}_file are set: keep one.")
    return text_of(f"{name}_file", file).strip() if file else value.get_secret_value()


def text_of(name: str, file: str) -> str:
    """Return the content of the text file that the setting of this name gives.

    Raises:
        SettingsError: the file can't be read.
    """
    try:
        return bytes_of(name, file).decode("utf-8")
    except UnicodeDecodeError:
        raise _unreadable(name, file, "it is not text") from None


def bytes_of(name: str, file: str) -> bytes:
    """Return the content of the file that the setting of this name gives.

    Raises:
        SettingsError: the file can't be read.
    """
    try:
        return Path(file).expanduser().read_bytes()
    except OSError as error:
        raise _unreadable(name, file, str(error.strerror).lower()) from None


def _unreadable(name: str, file: str, reason: str) -> SettingsError:
    return SettingsError(f"The file {file} can't be read ({reason}): correct {name}.")
