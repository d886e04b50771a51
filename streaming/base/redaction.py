"""Remove secrets from texts that others have written, such as a server that repeats what it was sent."""

import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterable, Iterator
from urllib.parse import quote, unquote

_PIECE = 6
"""So many characters in a row that also stand in a secret are removed; of a shorter secret, all."""


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
