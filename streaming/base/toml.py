"""Read the user's TOML files: what is wrong with one is a sentence."""

import tomllib
from pathlib import Path
from typing import Any

from streaming.base.errors import SettingsError, first_line


def read_toml(path: Path, kind: str, named_by: str) -> dict[str, Any]:
    """Return the content of a file.

    Args:
        path: the file.
        kind: what it is, for the sentence: "policy file".
        named_by: the setting or option that names it.

    Raises:
        SettingsError: it can't be read, or is not valid TOML.
    """
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"The {kind} {path} does not exist: correct {named_by}.") from None
    except OSError as error:
        raise SettingsError(f"The {kind} {path} can't be read ({error.strerror}): correct {named_by}.") from None
    except RecursionError:
        raise SettingsError(f"The {kind} {path} is not valid TOML: its values nest too deep.") from None
    except ValueError as error:  # not TOML, not UTF-8, a number of 5,000 digits
        raise SettingsError(f"The {kind} {path} is not valid TOML: {first_line(error)}.") from None
