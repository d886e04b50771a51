"""What every page has around it: theme, top bar, landmarks, and the sentence where something can't be shown."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import resources

from nicegui import ui
from nicegui.element import Element

from streaming.dashboard.links import HOME
from streaming.dashboard.markup import LiveMarkup
from streaming.queries.present import Ends

Crumb = tuple[str, str | None]
"""A step of the way here and where it leads; None for the page itself."""

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
    files = resources.files("streaming.dashboard")
    style, script = (files.joinpath(name).read_text("utf-8") for name in ("style.css", "page.js"))
    return f"<style>{style}</style><script>{script}</script>"


def dress() -> None:
    """Style and theme: before anything of a page is sent."""
    ui.add_head_html(_head())


def frame(title: str, crumbs: Sequence[Crumb]) -> None:
    """Begin a page: skip link and top bar. What is made next is its content."""
    ui.page_title(f"{title} · rebalance-watch")
    with ui.header(add_scroll_padding=True).classes("bar"):
        with element("a", "brand", href=HOME, aria_label="rebalance-watch, all groups"):
            ui.html(_MARK, sanitize=False, tag="span").classes("mark")
            element("span", "name").text = "rebalance-watch"
        with element("nav", aria_label="Way here"), element("ol"):
            for name, where in crumbs:
                with element("li"):
                    crumb = element("a", href=where) if where else element("span", aria_current="page")
                    crumb.text = name
        element("span", "quiet nowrap").text = "Times in UTC"
        with element("button", "theme", data_theme_switch="", aria_label="Theme"):
            ui.html(_HALF, sanitize=False, tag="span")
    ui.skip_link("Skip to the content", target=ui.context.client.content)


def stale(told: Ends, at: int | None) -> None:
    """Let nothing be green while the page can't speak of now."""
    silent = told.silent and at is None
    ui.context.client.content.classes(add="stale" if silent else "", remove="" if silent else "stale")


class Plain(ui.element):
    """An element of HTML as it is, with text."""

    @property
    def text(self) -> str:
        """What it says."""
        return self._text or ""

    @text.setter
    def text(self, said: str) -> None:
        if said != self._text:
            self._text = said
            self.update()


def element(tag: str, classes: str = "", **attributes: str | None) -> Plain:
    """An element of HTML; ``aria_label="…"`` is the attribute ``aria-label``."""
    made = Plain(tag).classes(classes)
    made.props.update({name.replace("_", "-"): value for name, value in attributes.items() if value is not None})
    return made


@contextmanager
def panel(title: str, name: str) -> Iterator[Element]:
    """A titled section of a page; gives the line of its title, for controls."""
    with element("section", "panel", aria_labelledby=name):
        with element("div", "panel-head") as line:
            element("h2", id=name).text = title
        yield line


def search(label: str, on_change: Callable[[str], object]) -> None:
    """A search box that calls once typing pauses."""
    box = element("input", "field", type="search", placeholder=label, aria_label=label)
    box.on(
        "input", lambda event: on_change(event.args), throttle=0.25, leading_events=False,
        js_handler="(event) => emit(event.target.value)",
    )  # fmt: skip


def choice(label: str, options: dict[str, str], on_change: Callable[[str], object]) -> None:
    """A choice of one; the first is chosen at the start."""
    with element("select", "field", aria_label=label) as box:
        for value, text in options.items():
            element("option", value=value).text = text
    box.on("change", lambda event: on_change(event.args), js_handler="(event) => emit(event.target.value)")


def check(label: str, on_change: Callable[[bool], object]) -> None:
    """A check box, off at the start."""
    with element("label", "check"):
        box = element("input", type="checkbox")
        element("span").text = label
    box.on("change", lambda event: on_change(event.args), js_handler="(event) => emit(event.target.checked)")


def sorry(title: str, sentence: str, status: int) -> None:
    """Say in one sentence why there is nothing to show."""
    ui.context.client.status_code = status
    frame(title, [("Groups", HOME), (title, None)])
    LiveMarkup("sorry").show(title=title, sentence=sentence)
