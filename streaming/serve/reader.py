"""The language of a reader: the one chosen on a page, otherwise the setting, otherwise the browser's."""

from collections.abc import Iterator, Mapping

from streaming.base.language import ENGLISH, LANGUAGES

LANGUAGE_COOKIE = "rebalance-watch-language"
"""What the switch of a page sets (`static/page.js`); the server needs it to render the page."""
AUTO = "auto"


def language_of(headers: Mapping[str, str], cookies: Mapping[str, str], setting: str) -> str:
    """Return the language for a request.

    Args:
        headers: of the request, by lower-case name.
        cookies: of the request.
        setting: `web.language`.
    """
    chosen = cookies.get(LANGUAGE_COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    if setting != AUTO:
        return setting
    wanted = _by_quality(headers.get("accept-language", ""))
    return next((one for one in wanted if one in LANGUAGES), ENGLISH)


def _by_quality(accepted: str) -> Iterator[str]:
    """Yield the languages of the header, without their regions, the most wanted first."""
    ranges = [one.strip().partition(";") for one in accepted.split(",")]
    for tag, _, quality in sorted(ranges, key=lambda one: -_number(one[2])):
        if _number(quality):
            yield tag.strip().partition("-")[0].lower()


def _number(quality: str) -> float:
    name, _, value = quality.strip().partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
