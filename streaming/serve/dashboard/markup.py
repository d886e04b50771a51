"""Render HTML from templates on the server and update it in place.

The template engine escapes all external text; unknown values are labelled.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from nicegui import ui

from streaming.base.times import written
from streaming.queries import labels
from streaming.queries.columns import FAILED_MESSAGES, GROUP, INCIDENT, MEMBER, MOVE, QUEUE, REBALANCE, Context
from streaming.queries.health import HEALTH, SEVERITY
from streaming.queries.labels import cause, trigger
from streaming.serve import links

UNKNOWN = Markup('<span class="unknown">unknown</span>')


def clock(time_ms: int | None, near: int | None = None) -> Markup:
    """Format an instant in UTC, without the day if it is that of ``near``; `times.js` shows it in the chosen zone."""
    if time_ms is None:
        return UNKNOWN
    when = datetime.fromtimestamp(time_ms / 1000, UTC)
    same_day = near is not None and when.date() == datetime.fromtimestamp(near / 1000, UTC).date()
    shown = when.strftime("%H:%M:%S") if same_day else f"{when.day} {when:%b %Y %H:%M:%S}"
    by = Markup(' data-near="{}"').format(written(near)) if near is not None else ""
    return Markup('<time datetime="{0}" title="{0}"{1}>{2}</time>').format(written(time_ms), by, shown)


def zone(time_ms: int) -> Markup:
    """Return the name of the zone of a time that `clock` has formatted."""
    return Markup('<span data-zone-at="{}">UTC</span>').format(written(time_ms))


def duration(span_ms: int | None) -> str | Markup:
    """Format a duration as `labels.duration` does."""
    return UNKNOWN if span_ms is None else labels.duration(span_ms)


def thin(text: str) -> str:
    """Return a formatted number with thin spaces between thousands, instead of commas."""
    return text.replace(",", "\u202f")


def count(number: int | None) -> str | Markup:
    """Format a number with thin spaces between thousands."""
    return UNKNOWN if number is None else thin(labels.number(number))


_TONES: dict[str, str] = {
    "": "", "attention": "differs", "unassigned": "unknown", "quiet": "quiet", "stale": "old",
    **{name: f"status {name}" for name in (*HEALTH, *SEVERITY)},
}  # fmt: skip
"""The class in `style.css` by the tone of a value."""


_TEMPLATES = Environment(
    loader=PackageLoader("streaming.serve.dashboard"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
    lstrip_blocks=True,
)  # fmt: skip
_TEMPLATES.filters |= {"clock": clock, "zone": zone, "iso": written, "duration": duration, "count": count, "thin": thin}
_TEMPLATES.globals |= {
    "links": links, "zip": zip, "cause": cause, "trigger": trigger,
    "UNKNOWN": UNKNOWN, "HEALTH": HEALTH, "SEVERITY": SEVERITY, "NOT_KNOWN": labels.NOT_KNOWN, "TONES": _TONES,
    "NAME_SERVER": labels.NAME_SERVER, "per_client": labels.queues_per_client, "pause": labels.pause,
    "Context": Context, "FAILED_MESSAGES": FAILED_MESSAGES, "GROUP": GROUP, "INCIDENT": INCIDENT, "MEMBER": MEMBER,
    "MOVE": MOVE, "QUEUE": QUEUE, "REBALANCE": REBALANCE,
}  # fmt: skip


def rendered(template: str, **values: object) -> str:
    """Render a template to HTML."""
    return _TEMPLATES.get_template(f"{template}.html.j2").render(**values)


class LiveMarkup(ui.element, component="live_markup.js"):
    """A part of a page rendered from a template: focus and scroll positions are kept when it changes.

    A button in it with ``data-do="word"`` calls ``on_do`` with that word.
    """

    def __init__(self, template: str, on_do: Callable[[str], object] | None = None) -> None:
        super().__init__()
        self._template = template
        self._props["html"] = ""
        if on_do is not None:
            self.on("do", lambda event: on_do(event.args))

    def show(self, **values: object) -> None:
        """Render the template with these values; only changes are sent."""
        html = rendered(self._template, **values)
        if html != self._props["html"]:
            self._props["html"] = html
            self.update()
