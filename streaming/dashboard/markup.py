"""HTML that the server renders from templates, and that changes in place.

Everything that comes from outside is escaped by the template engine; a value that is not known says so.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from nicegui import ui

from streaming.dashboard import links
from streaming.queries.words import cause, move_kind, queue_name, trigger
from streaming.times import written

UNKNOWN = Markup('<span class="unknown" title="not known">not known</span>')


def clock(time_ms: int | None, near: int | None = None) -> Markup:
    """An instant in UTC; the day is left out where it is that of ``near``."""
    if time_ms is None:
        return UNKNOWN
    when = datetime.fromtimestamp(time_ms / 1000, UTC)
    same_day = near is not None and when.date() == datetime.fromtimestamp(near / 1000, UTC).date()
    shown = when.strftime("%H:%M:%S") if same_day else f"{when.day} {when:%b %Y %H:%M:%S}"
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(written(time_ms), shown)


def duration(span_ms: int | None) -> str | Markup:
    """A span of time in its two largest units."""
    if span_ms is None:
        return UNKNOWN
    if span_ms < 1_000:
        return f"{span_ms} ms"
    if span_ms < 60_000:
        return f"{span_ms / 1000:.1f} s"
    seconds = span_ms // 1000
    for size, unit, smaller, smaller_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size} {unit}" + (f" {rest} {smaller_unit}" if rest else "")
    raise AssertionError(span_ms)


def ago(age_ms: int | None) -> str | Markup:
    """How long ago something was."""
    if age_ms is None:
        return UNKNOWN
    return "just now" if age_ms < 1_000 else f"{duration(age_ms)} ago"


def count(number: int | None) -> str | Markup:
    """A number with its thousands apart (a thin space)."""
    return UNKNOWN if number is None else f"{number:,}".replace(",", "\u202f")


_TEMPLATES = Environment(
    loader=PackageLoader("streaming.dashboard"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
    lstrip_blocks=True,
)  # fmt: skip
_TEMPLATES.filters |= {"clock": clock, "duration": duration, "ago": ago, "count": count}
_TEMPLATES.globals |= {
    "links": links, "queue_name": queue_name, "cause": cause, "trigger": trigger, "move_kind": move_kind,
    "UNKNOWN": UNKNOWN,
}  # fmt: skip


def rendered(template: str, **facts: object) -> str:
    """A template's HTML."""
    return _TEMPLATES.get_template(f"{template}.html.j2").render(**facts)


class LiveMarkup(ui.element, component="live_markup.js"):
    """A part of a page that is a template's HTML: focus and scroll positions stay when its facts change.

    A button in it with ``data-do="word"`` calls ``on_do`` with that word.
    """

    def __init__(self, template: str, on_do: Callable[[str], object] | None = None) -> None:
        super().__init__()
        self._template = template
        self._props["html"] = ""
        if on_do is not None:
            self.on("do", lambda event: on_do(event.args))

    def show(self, **facts: object) -> None:
        """Render with these facts; nothing is sent where that changes nothing."""
        html = rendered(self._template, **facts)
        if html != self._props["html"]:
            self._props["html"] = html
            self.update()
