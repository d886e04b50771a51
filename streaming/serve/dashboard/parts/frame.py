"""The common frame of the pages: theme, top bar, landmarks and the error page."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cache
from weakref import WeakKeyDictionary

from nicegui import Client, ui
from nicegui.element import Element

from streaming.base.language import LANGUAGES, current, gettext, in_language, marked, raw
from streaming.base.terminal import shortened
from streaming.queries.present import HistoryBounds
from streaming.serve.dashboard.parts.markup import LiveMarkup, page_handler
from streaming.serve.dashboard.static import STATIC
from streaming.serve.links import (
    LOGOUT_PATH,
    actions_link,
    clients_link,
    health_link,
    home_link,
    incidents_link,
    prefix,
    sql_link,
)
from streaming.serve.user import User, current_user

Crumb = tuple[str, str | None]
"""A breadcrumb: its text and address; None for the current page."""

_PAGES: dict[str, Callable[[], str]] = {
    marked("Groups"): home_link,
    marked("Incidents"): incidents_link,
    marked("Clients"): clients_link,
    marked("SQL"): sql_link,
}
"""The pages that are reached from every page."""

TEXT = re.compile(r'\btext\(\s*"([^"]+)"')
"""A text in a script, which `text` in `static/text.js` looks up."""


@cache
def _head(language: str) -> str:
    scripts = {file.name: file.read_text("utf-8") for file in STATIC.rglob("*.js")}
    with in_language(language):
        texts = {one: raw(one) for script in scripts.values() for one in TEXT.findall(script)}
    words = json.dumps({one: said for one, said in texts.items() if said != one}).replace("</", "<\\/")
    parts = [f"<style>{(STATIC / 'style.css').read_text('utf-8')}</style>"]
    parts += [f"<script>const rebalanceWatchTexts = {words};</script>"]
    parts += [f"<script>{scripts[name]}</script>" for name in ("text.js", "times.js", "page.js")]
    return "".join(parts)


@cache
def _picture(name: str) -> str:
    return (STATIC / f"{name}.svg").read_text("utf-8").strip()


def dress() -> None:
    """Add style, theme and language to a page; called before any content is sent."""
    client = ui.context.client
    client.page = copy(client.page)  # the route's, which readers of other languages share
    client.page.language = current().tag
    ui.add_head_html(_head(current().code))


def frame(title: str, crumbs: Sequence[Crumb]) -> None:
    """Give a page its title, skip link and top bar; elements created afterwards are its content.

    The bar of the outline stays: its menu may be open by now.
    """
    ui.page_title(f"{title} · rebalance-watch")
    client = ui.context.client
    if client not in _bars:
        _bars[client] = _bar()
        ui.skip_link(gettext("Skip to the content"), target=client.content)
    trail, pages = _bars[client]
    trail.clear()
    pages.clear()
    with trail, element("ol"):
        for name, where in crumbs:
            with element("li"):
                crumb = element("a", href=where) if where else element("span", aria_current="page")
                crumb.text = name
    with pages:
        for name, link in _PAGES.items():
            is_current = "page" if crumbs[-1] == (gettext(name), None) else None
            element("a", href=link(), aria_current=is_current).text = gettext(name)


_bars: WeakKeyDictionary[Client, tuple[Element, Element]] = WeakKeyDictionary()
"""The breadcrumbs and the links to the pages, in the top bar of each open page."""


def _bar() -> tuple[Element, Element]:
    """Create the top bar; returns its breadcrumbs and its links to the pages, both empty."""
    with ui.header(add_scroll_padding=True).classes("bar"):
        with element("a", "brand", href=home_link(), aria_label=gettext("rebalance-watch, all groups")):
            ui.html(_picture("mark"), sanitize=False, tag="span").classes("mark")
            element("span", "name").text = "rebalance-watch"
        trail = element("nav", aria_label=gettext("Breadcrumbs"))
        pages = element("nav", "pages", aria_label=gettext("Pages"))
        _signed_in(current_user())
        with element("button", "zone", data_zone_switch=""):
            ui.html(gettext("Times in {zone}", zone="UTC"), sanitize=False, tag="span")
        other = next(one for one in LANGUAGES.values() if one != current())
        switch = element("button", "language", data_language_switch=other.code, lang=other.tag)
        switch.text = other.name
        with element("button", "theme", data_theme_switch="", aria_label=gettext("Theme")):
            ui.html(_picture("theme"), sanitize=False, tag="span")
    return trail, pages


@contextmanager
def outline(title: str) -> Iterator[None]:
    """Show the frame of a page, and its outline until the end of the block, while its data are read."""
    with element("div", "outline") as content:
        element("h1").text = title
        element("p", "quiet", role="status").text = gettext("Reading the tables…")
        for _ in range(3):
            element("div", "block", aria_hidden="true")
    frame(title, [(title, None)])
    try:
        yield
    finally:
        if not content.is_deleted:  # as it is when the browser has left the page
            content.delete()


def _signed_in(user: User) -> None:
    """Show who has signed in, with the role, and how to sign out if there is a session here."""
    if not user.name:
        return
    role = gettext("Operator") if user.is_operator else gettext("Viewer")
    with element("details", "user", data_session=health_link() if user.has_session else None):
        with element("summary", aria_label=gettext("Signed in: {name}, {role}", name=user.name, role=role)):
            ui.html(_picture("person"), sanitize=False, tag="span").classes("mark")
            element("span", "name").text = user.name
        with element("div", "user-menu"):
            element("b").text = user.name
            element("span", "quiet").text = role
            element("a", href=actions_link(user.name)).text = gettext("Your actions")
            if user.has_session:
                with element("form", method="post", action=f"{prefix()}{LOGOUT_PATH}"):
                    element("button", type="submit").text = gettext("Sign out")


def stale(ends: HistoryBounds) -> None:
    """Show nothing in green if the state at the instant that is shown is stale or unknown."""
    add, remove = ("stale", "") if ends.at_instant.is_stale else ("", "stale")
    ui.context.client.content.classes(add=add, remove=remove)


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
    """Create a search box, with a text at the start, that calls ``on_change`` when typing pauses.

    The text is the field's default: Vue sets a ``value`` again whenever it renders the page, over what is typed.
    """
    box = element("input", "field", type="search", placeholder=label, aria_label=label, defaultValue=text)
    box.on(
        "input", page_handler(on_change), throttle=0.25, leading_events=False,
        js_handler="(event) => emit(event.target.value)",
    )  # fmt: skip


def choice(label: str, options: dict[str, str], on_change: Callable[[str], object], chosen: str | None = None) -> None:
    """Create a select box; at the start the first option is selected, unless another one is given."""
    with element("select", "field", aria_label=label) as box:
        for value, text in options.items():
            element("option", value=value, selected="" if value == chosen else None).text = text
    box.on("change", page_handler(on_change), js_handler="(event) => emit(event.target.value)")


def check(label: str, on_change: Callable[[bool], object]) -> None:
    """Create a check box, not checked at the start."""
    with element("label", "check"):
        box = element("input", type="checkbox")
        element("span").text = label
    box.on("change", page_handler(on_change), js_handler="(event) => emit(event.target.checked)")


def error_page(title: str, sentence: str, status: int) -> None:
    """Show one sentence that explains why the page cannot be shown."""
    ui.context.client.status_code = status
    title, sentence = shortened(title), shortened(sentence)
    frame(title, [(gettext("Groups"), home_link()), (title, None)])
    LiveMarkup("error").show(title=title, sentence=sentence)
