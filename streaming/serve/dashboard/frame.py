"""The common frame of the pages: theme, top bar, landmarks and the error page."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import resources

from nicegui import ui
from nicegui.element import Element

from streaming.queries.present import Ends
from streaming.serve.dashboard.markup import LiveMarkup
from streaming.serve.links import CLIENTS, HOME, INCIDENTS

Crumb = tuple[str, str | None]
"""A breadcrumb: its text and address; None for the current page."""

_PAGES = {"Groups": HOME, "Incidents": INCIDENTS, "Clients": CLIENTS}
"""The pages that are reached from every page."""
_MARK = (
    '<svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true"><g fill="none" stroke="var(--accent)"'
    ' stroke-width="2.4"><path d="M2 5h9M15 5h3"/><path d="M2 10h4M10 10h8" opacity=".55"/><path d="M2 15h11M17 15h1"/>'
    "</g></svg>"
)
_HALF = (
    '<svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true"><circle cx="8" cy="8" r="6.5" fill="none"'
    ' stroke="currentColor" stroke-width="1.6"/><path d="M8 1.5a6.5 6.5 0 0 1 0 13z" fill="currentColor"/></svg>'
)


@cache
def _head() -> str:
    files = resources.files("streaming.serve.dashboard")
    style, times, page = (files.joinpath(name).read_text("utf-8") for name in ("style.css", "times.js", "page.js"))
    return f"<style>{style}</style><script>{times}</script><script>{page}</script>"


def dress() -> None:
    """Add style and theme to a page; called before any content is sent."""
    ui.add_head_html(_head())


def frame(title: str, crumbs: Sequence[Crumb]) -> None:
    """Begin a page with skip link and top bar; elements created afterwards are its content."""
    ui.page_title(f"{title} · rebalance-watch")
    with ui.header(add_scroll_padding=True).classes("bar"):
        with element("a", "brand", href=HOME, aria_label="rebalance-watch, all groups"):
            ui.html(_MARK, sanitize=False, tag="span").classes("mark")
            element("span", "name").text = "rebalance-watch"
        with element("nav", aria_label="Breadcrumbs"), element("ol"):
            for name, where in crumbs:
                with element("li"):
                    crumb = element("a", href=where) if where else element("span", aria_current="page")
                    crumb.text = name
        with element("nav", "pages", aria_label="Pages"):
            for name, where in _PAGES.items():
                current = "page" if crumbs[-1] == (name, None) else None
                element("a", href=where, aria_current=current).text = name
        with element("button", "zone", data_zone_switch=""):
            ui.html("Times in UTC", sanitize=False, tag="span")
        with element("button", "theme", data_theme_switch="", aria_label="Theme"):
            ui.html(_HALF, sanitize=False, tag="span")
    ui.skip_link("Skip to the content", target=ui.context.client.content)


def stale(ends: Ends, at: int | None) -> None:
    """Show nothing in green while the current state is unknown."""
    silent = ends.silent and at is None
    ui.context.client.content.classes(add="stale" if silent else "", remove="" if silent else "stale")


class Plain(ui.element):
    """A plain HTML element with text."""

    @property
    def text(self) -> str:
        """The text of the element."""
        return self._text or ""

    @text.setter
    def text(self, value: str) -> None:
        if value != self._text:
            self._text = value
            self.update()


def element(tag: str, classes: str = "", **attributes: str | None) -> Plain:
    """Create an HTML element; ``aria_label="…"`` sets the attribute ``aria-label``."""
    made = Plain(tag).classes(classes)
    made.props.update({name.replace("_", "-"): value for name, value in attributes.items() if value is not None})
    return made


@contextmanager
def panel(title: str, name: str) -> Iterator[Element]:
    """Create a titled section of a page; yields the title line, for controls."""
    with element("section", "panel", aria_labelledby=name):
        with element("div", "panel-head") as line:
            element("h2", id=name).text = title
        yield line


def search(label: str, on_change: Callable[[str], object], text: str = "") -> None:
    """Create a search box, with a text at the start, that calls ``on_change`` when typing pauses."""
    box = element("input", "field", type="search", placeholder=label, aria_label=label, value=text)
    box.on(
        "input", lambda event: on_change(event.args), throttle=0.25, leading_events=False,
        js_handler="(event) => emit(event.target.value)",
    )  # fmt: skip


def choice(label: str, options: dict[str, str], on_change: Callable[[str], object], chosen: str | None = None) -> None:
    """Create a select box; at the start the first option is selected, unless another one is given."""
    with element("select", "field", aria_label=label) as box:
        for value, text in options.items():
            element("option", value=value, selected="" if value == chosen else None).text = text
    box.on("change", lambda event: on_change(event.args), js_handler="(event) => emit(event.target.value)")


def check(label: str, on_change: Callable[[bool], object]) -> None:
    """Create a check box, not checked at the start."""
    with element("label", "check"):
        box = element("input", type="checkbox")
        element("span").text = label
    box.on("change", lambda event: on_change(event.args), js_handler="(event) => emit(event.target.checked)")


def error_page(title: str, sentence: str, status: int) -> None:
    """Show one sentence that explains why the page cannot be shown."""
    ui.context.client.status_code = status
    frame(title, [("Groups", HOME), (title, None)])
    LiveMarkup("error").show(title=title, sentence=sentence)
