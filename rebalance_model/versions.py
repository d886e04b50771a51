"""RocketMQ's release numbers as clients and brokers send them: the ordinal of an enum (MQVersion.Version)."""

_V4_0_0_SNAPSHOT = 212
"""From here on each release has two numbers, its snapshot's and its own, and each minor version ten releases."""
_HIGHER_VERSION = 612


def release_of(number: int) -> str | None:
    """Return the release of a version number, such as ``5.3.1`` for 475 (MQVersion.getVersionDesc); None if unknown.

    Examples:
        >>> [release_of(number) for number in (407, 492, 493)]
        ['4.9.7', '5.4.0-SNAPSHOT', '5.4.0']
    """
    if number <= 0:
        return None
    if number >= _HIGHER_VERSION:
        return "6.0 or later"
    if number < _V4_0_0_SNAPSHOT:
        return "3.x"
    releases, is_final = divmod(number - _V4_0_0_SNAPSHOT, 2)
    digits = ".".join(str(400 + releases))
    return digits if is_final else f"{digits}-SNAPSHOT"
