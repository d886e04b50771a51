"""Render HTML from templates on the server, in the current language, and update it in place.

The template engine escapes all external text; unknown values are labelled.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from inspect import isawaitable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from nicegui import ui
from nicegui.events import GenericEventArguments

from streaming.base.language import current, filled, gettext, in_language, ngettext, raw
from streaming.base.times import duration_ms, instant_ms, written
from streaming.queries import labels
from streaming.queries.columns import FAILED_MESSAGES, GROUP, INCIDENT, MEMBER, MOVE, QUEUE, REBALANCE
from streaming.queries.columns.column import Context
from streaming.queries.health import HEALTH, SEVERITY
from streaming.queries.labels import cause, reason, trigger
from streaming.queries.results import TelemetryCoverage
from streaming.queries.rule_text import explained, first_step, headline
from streaming.serve import links
from streaming.serve.dashboard.static import STATIC
from streaming.serve.links import below, prefix


def page_handler(do: Callable[[Any], object]) -> Callable[[GenericEventArguments], Awaitable[None]]:
    """Return a handler that calls ``do`` with an event's value, in the language and below the prefix of its page.

    An event comes with the connection of its browser, whose context knows no page; timers keep that of their page.
    """
    language, path_prefix = current().code, prefix()

    async def handler(event: GenericEventArguments) -> None:
        with in_language(language), below(path_prefix):
            done = do(event.args)
            if isawaitable(done):
                await done

    return handler


def unknown() -> Markup:
    """Return the label of an unknown value."""
    return Markup('<span class="unknown">{}</span>').format(gettext("unknown"))


def clock(time_ms: int | None, near: int | None = None) -> Markup:
    """Format an instant in UTC, without the day if it is that of ``near``; `times.js` shows it in the chosen zone."""
    if time_ms is None:
        return unknown()
    when = datetime.fromtimestamp(time_ms / 1000, UTC)
    same_day = near is not None and when.date() == datetime.fromtimestamp(near / 1000, UTC).date()
    shown = when.strftime("%H:%M:%S" if same_day else "%Y-%m-%d %H:%M:%S")
    by = Markup(' data-near="{}"').format(written(near)) if near is not None else ""
    return Markup('<time datetime="{0}" title="{0}"{1}>{2}</time>').format(written(time_ms), by, shown)


def zone(time_ms: int) -> Markup:
    """Return the name of the zone of a time that `clock` has formatted."""
    return Markup('<span data-zone-at="{}">UTC</span>').format(written(time_ms))


def instant(time_ms: int, near: int | None = None) -> Markup:
    """Format an instant as `clock` does, with its zone."""
    return Markup("{} {}").format(clock(time_ms, near), zone(time_ms))


_WRITTEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def dated(sentence: str) -> Markup:
    """Return a sentence in which each time that is written by ISO 8601 is shown as every other one of the page."""
    begin, parts = 0, [Markup()]
    for found in _WRITTEN.finditer(sentence):
        parts += [escape(sentence[begin : found.start()]), instant(instant_ms(found[0], 0))]
        begin = found.end()
    return Markup().join([*parts, escape(sentence[begin:])])


def span_text(span: str) -> str:
    """Return a duration such as ``15m`` in words."""
    return labels.duration(duration_ms(span))


def duration(span_ms: int | None) -> str | Markup:
    """Format a duration as `labels.duration` does."""
    return unknown() if span_ms is None or span_ms < 0 else labels.duration(span_ms)


def thin(text: str) -> str:
    """Return a formatted number with thin spaces between thousands, instead of commas."""
    return text.replace(",", "\u202f")


def count(number: int | None) -> str | Markup:
    """Format a number with thin spaces between thousands."""
    return unknown() if number is None else thin(labels.number(number))


_TONES: dict[str, str] = {
    "": "", "attention": "differs", "unassigned": "unknown", "quiet": "quiet", "stale": "old",
    **{name: f"status {name}" for name in (*HEALTH, *SEVERITY)},
}  # fmt: skip
"""The class in `static/style.css` by the tone of a value."""


def _text(text: str, /, **values: object) -> Markup:
    """Return a text of a template in the current language; values are escaped unless they are markup themselves."""
    return _filled(raw(text), values)


def _ntext(single: str, many: str, n: int, /, **values: object) -> Markup:
    """Return the form of a text for a number, which is ``{n}``; see `_text`."""
    return _filled(raw(single, many, n), {"n": count(n)} | values)


def _filled(text: str, values: Mapping[str, object]) -> Markup:
    return Markup(filled(escape(text), {name: escape(value) for name, value in values.items()}))  # noqa: S704  escaped


_TEMPLATES = Environment(
    loader=PackageLoader("streaming.serve.dashboard"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
    lstrip_blocks=True,
)  # fmt: skip
_TEMPLATES.filters |= {
    "clock": clock, "zone": zone, "instant": instant, "iso": written, "duration": duration, "count": count,
    "thin": thin, "dated": dated,
}  # fmt: skip
_TEMPLATES.globals |= {
    "_": _text, "ngettext": _ntext, "unknown": unknown, "health_reason": reason,
    "explained": explained, "first_step": first_step, "headline": headline,
    "links": links, "zip": zip, "span_text": span_text, "cause": cause, "trigger": trigger,
    "HEALTH": HEALTH, "SEVERITY": SEVERITY, "NOT_KNOWN": labels.NOT_KNOWN, "TONES": _TONES,
    "NAME_SERVER": labels.NAME_SERVER, "per_client": labels.queues_per_client, "pause": labels.pause,
    "Context": Context, "FAILED_MESSAGES": FAILED_MESSAGES, "GROUP": GROUP, "INCIDENT": INCIDENT, "MEMBER": MEMBER,
    "MOVE": MOVE, "QUEUE": QUEUE, "REBALANCE": REBALANCE,
}  # fmt: skip


def rendered(template: str, **values: object) -> str:
    """Render a template to HTML."""
    return _TEMPLATES.get_template(f"{template}.html.j2").render(**values)


class LiveMarkup(ui.element, component=STATIC / "live_markup.js"):
    """A part of a page rendered from a template: focus and scroll positions are kept when it changes.

    A button in it with ``data-do="word"`` calls ``on_do`` with that word.
    """

    def __init__(self, template: str, on_do: Callable[[str], object] | None = None) -> None:
        super().__init__()
        self._template = template
        self._props["html"] = ""
        if on_do is not None:
            self.on("do", page_handler(on_do))

    def show(self, **values: object) -> None:
        """Render the template with these values; only changes are sent."""
        html = rendered(self._template, **values)
        if html != self._props["html"]:
            self._props["html"] = html
            self.update()


def coverage_of(coverage: TelemetryCoverage) -> str:
    """Format the telemetry coverage in one line."""
    parts = []
    if coverage.hooks:
        parts.append(gettext("hooks {n}/{brokers}", n=coverage.hooks, brokers=coverage.brokers))
    if coverage.polls:
        parts.append(gettext("{n}/{clients} clients respond", n=coverage.members_answering, clients=coverage.members))
    if coverage.silent_rules:
        rules = len(coverage.silent_rules)
        parts.append(ngettext("{n} rule suspended or not applicable", "{n} rules suspended or not applicable", rules))
    if unreadable := len(coverage.unreadable) + coverage.unreadable_more:
        parts.append(ngettext("{n} part of an answer unreadable", "{n} parts of answers unreadable", unreadable))
    if coverage.routes_incomplete:
        topics = "; ".join(coverage.routes_incomplete)
        parts.append(gettext("the collector's route lacks a broker ({topics})", topics=topics))
    return " · ".join(parts) or gettext("none")
