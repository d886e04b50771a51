"""Pages of long tables; the other rows stay on the server."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Page(NamedTuple, Generic[T]):
    """Some of the rows."""

    rows: Sequence[T]
    page: int
    """Its number, from 0."""
    pages: int
    total: int
    """The number of all rows."""

    @property
    def pager(self) -> dict[str, int]:
        """The values of the pager below the rows (the macro `pager` of `parts.html.j2`)."""
        return {"page": self.page, "pages": self.pages, "total": self.total}


def page_of(rows: Sequence[T], page: int, size: int) -> Page[T]:
    """Return a page by its number, or the last page."""
    pages = max(1, -(-len(rows) // size))
    page = min(max(0, page), pages - 1)
    return Page(rows[page * size : (page + 1) * size], page, pages, len(rows))


def turned(word: str) -> int:
    """Parse the page number from the word of a pager's button."""
    return int(word.removeprefix("page:"))
