"""A page of many rows: the rest stays on the server."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Page(NamedTuple, Generic[T]):
    """Some of the rows."""

    rows: Sequence[T]
    page: int
    """Its number, from 0."""
    pages: int


def page_of(rows: Sequence[T], page: int, size: int) -> Page[T]:
    """The page of that number, or the last one there is."""
    pages = max(1, -(-len(rows) // size))
    page = min(max(0, page), pages - 1)
    return Page(rows[page * size : (page + 1) * size], page, pages)


def turned(word: str) -> int:
    """The page that a pager's button asks for."""
    return int(word.removeprefix("page:"))
