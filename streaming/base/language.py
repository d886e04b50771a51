"""The language of texts for people: English, in which every text is written, or one with a catalogue.

Pages and alerts are shown in their reader's language. The command line, REST, metrics, logs and tables stay English,
which is the language of a context that chose none. A text is shown in English where its catalogue lacks it; a test
reports that. The catalogues are gettext's `.po` files in `catalogues/`, compiled in memory when first used: 50 ms.

In a template of a page or an alert the same functions are called `_` and `ngettext`. To add a text: CONTRIBUTING.
"""

import gettext as compiled
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Literal, NamedTuple, TypeAlias

LanguageCode: TypeAlias = Literal["en", "zh"]
"""Code of a language in settings and in the name of its catalogue."""


class Language(NamedTuple):
    """A language that people can choose."""

    code: LanguageCode
    tag: Literal["en-US", "zh-CN"]
    """Language tag of HTML (BCP 47)."""
    name: str
    """Its own name."""


LANGUAGES: Mapping[str, Language] = {
    one.code: one for one in (Language("en", "en-US", "English"), Language("zh", "zh-CN", "中文"))
}
ENGLISH = "en"
_NAME = re.compile(r"\{(\w+)\}")
_current: ContextVar[str] = ContextVar("language", default=ENGLISH)


@contextmanager
def in_language(code: str) -> Iterator[None]:
    """Make texts in a language, one of `LANGUAGES`."""
    token = _current.set(code)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> Language:
    """Return the language in which texts are made."""
    return LANGUAGES[_current.get()]


def gettext(text: str, /, **values: object) -> str:
    """Return a text in the current language, with the values in the place of ``{name}``."""
    return filled(raw(text), values)


def raw(singular: str, many: str | None = None, n: int = 1) -> str:
    """Return a text, or its form for a number, in the current language with its ``{name}``."""
    texts = _catalogue(_current.get())
    if many is not None:
        return texts.ngettext(singular, many, n)
    return texts.gettext(singular) if singular else ""  # gettext's text of "" is the head of the catalogue


def ngettext(singular: str, many: str, n: int, /, **values: object) -> str:
    """Return a text in the form for a number, with the values in the place of ``{name}``; ``{n}`` is the number."""
    return filled(raw(singular, many, n), {"n": n} | values)


def filled(text: str, values: Mapping[str, object]) -> str:
    """Return a text with the values in the place of ``{name}``.

    Unlike those of `str.format`, its names lead to no attributes, which a user's template of an alert must not reach.
    """
    return _NAME.sub(lambda found: str(values[found[1]]), text) if values else text


def marked(text: str) -> str:
    """Return a text as it is, for the catalogue: what shows it calls `gettext`."""
    return text


class Later:
    """A text in the language of its reader, for a finding that several readers are shown."""

    def __init__(self, text: str, /, **values: object) -> None:
        self._text, self._values = text, values

    def __str__(self) -> str:
        return gettext(self._text, **self._values)


def recognized(text: str, forms: Iterable[str]) -> str:
    """Return a text that was made in English, as in a row of a table, in the current language.

    ``forms`` are the marked texts, with ``{name}`` in the place of values, of which it may be one.
    """
    if _current.get() == ENGLISH or not text:
        return text
    for form in forms:
        if found := _pattern(form).fullmatch(text):
            return gettext(form, **found.groupdict())
    return gettext(text)


@cache
def _pattern(form: str) -> re.Pattern[str]:
    parts = _NAME.split(form)
    return re.compile("".join(f"(?P<{one}>.+?)" if n % 2 else re.escape(one) for n, one in enumerate(parts)))


def catalogue_file(code: str) -> Traversable:
    """Return the file with the texts of a language."""
    return resources.files("streaming.base").joinpath("catalogues", f"{code}.po")


@cache
def _catalogue(code: str) -> compiled.NullTranslations:
    if code == ENGLISH:
        return compiled.NullTranslations()
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    with catalogue_file(code).open("rb") as file:
        texts = read_po(file, locale=code)
    binary = io.BytesIO()
    write_mo(binary, texts)
    binary.seek(0)
    return compiled.GNUTranslations(binary)
