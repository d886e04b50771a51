"""Create ids that a replay reproduces: hashes of the values that they identify."""

import hashlib

_SEPARATOR = "\x1f"


def stable_id(*parts: str | int) -> str:
    """Return sixteen hexadecimal digits that depend only on the parts."""
    text = _SEPARATOR.join(str(part) for part in parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
