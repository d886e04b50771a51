"""Sort the rows of a table by a column, the unknown last in either direction, and show a long table in pages."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from streaming.base.language import gettext
from streaming.base.nearest import one_of

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


Rank = tuple[float | str, ...]


class Order(NamedTuple, Generic[T]):
    """An order of rows by a column."""

    label: str
    """Its name in the list of orders."""
    key: Callable[[T], Rank | None]
    """Returns the value to sort by; None: it is unknown."""
    descending: bool = True
    """True if the largest value comes first, unless the order is reversed."""


def number(value: int | None) -> Rank | None:
    """Return the rank of a number that may be unknown."""
    return None if value is None else (value,)


def in_order(rows: Iterable[T], order: Order[T], *, descending: bool | None = None) -> list[T]:
    """Return rows in an order; equal ones as they come.

    Args:
        rows: the rows.
        order: the order.
        descending: whether the largest value comes first; None: as the order has it.
    """
    listed = list(rows)
    ranked = [(rank, row) for row in listed if (rank := order.key(row)) is not None]
    ranked.sort(key=lambda pair: pair[0], reverse=order.descending if descending is None else descending)
    return [row for _, row in ranked] + [row for row in listed if order.key(row) is None]


@dataclass(frozen=True, kw_only=True)
class SortedFilters(Generic[T]):
    """The filters and the order of a page with a table, as in its address; empty: no filter, and the first order."""

    sort: str = ""
    """The column of an order, reversed with a leading ``-``."""

    orders: ClassVar[Mapping[str, Order[Any]]]
    """The orders by the name of their column; the first one is used if none is chosen."""

    @property
    def column(self) -> str:
        """The column that the rows are sorted by."""
        return self.sort.removeprefix("-") or next(iter(self.orders))

    @property
    def is_reversed(self) -> bool:
        """Return whether the order is reversed."""
        return self.sort.startswith("-")

    @property
    def descending(self) -> bool:
        """Return whether the largest value comes first."""
        return self.orders[self.column].descending != self.is_reversed

    def by(self, column: str) -> Self:
        """Return the order by a column; the reverse one if it is that already."""
        if column == self.column and not self.is_reversed:
            return replace(self, sort=f"-{column}")
        return replace(self, sort="" if column == next(iter(self.orders)) else column)

    def in_order(self, rows: Iterable[T]) -> list[T]:
        """Return rows in the order; equal ones as they come."""
        return in_order(rows, self.orders[self.column], descending=self.descending)

    def with_known_order(self) -> Self:
        """Return the filters with the order as it is spelled here.

        Raises:
            InvalidValueError: there is no such order.
        """
        return replace(self, sort=self.sort.replace(self.column, one_of("sort", self.column, self.orders)))

    def values(self) -> dict[str, str]:
        """Return the filters, and last the order, by their names in the address."""
        values = asdict(self)
        values["sort"] = values.pop("sort")
        return values


def choices(orders: Mapping[str, Order[T]]) -> dict[str, str]:
    """Return the names of orders for a list to choose from, in the current language."""
    return {name: gettext(order.label) for name, order in orders.items()}
