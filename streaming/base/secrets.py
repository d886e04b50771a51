"""Read what a setting or the file that it names holds."""

from pathlib import Path
from typing import TYPE_CHECKING

from streaming.base.errors import SettingsError

if TYPE_CHECKING:  # a command that reads no secret does without it
    from pydantic import SecretStr


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
