"""Ids that a replay reproduces: hashes of what they name."""

import hashlib

_SEPARATOR = "\x1f"


def stable_id(*parts: str | int) -> str:
    """Sixteen hexadecimal digits that depend on nothing but the parts."""
    text = _SEPARATOR.join(str(part) for part in parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
