"""Format an instant as text, without the machine's clock or calendar."""

_DAY = 86_400_000
_ERA = 146_097
"""Days in 400 years."""


def utc(time_ms: int) -> str:
    """Return an instant as ``2026-11-22 15:59:25``, UTC.

    Args:
        time_ms: epoch milliseconds.
    """
    days, rest = divmod(time_ms, _DAY)
    era, day = divmod(days + 719_468, _ERA)  # since 0000-03-01: the leap day is the last of such a year
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day_of_month = day - (153 * month + 2) // 5 + 1
    month, year = (month + 3, 400 * era + year) if month < 10 else (month - 9, 400 * era + year + 1)
    minutes, seconds = divmod(rest // 1_000, 60)
    return f"{year:04}-{month:02}-{day_of_month:02} {minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
