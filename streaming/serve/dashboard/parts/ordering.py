"""Sort the rows of a table by a column; rows whose value is unknown come last in either direction."""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from streaming.base.language import gettext

T = TypeVar("T")
Rank = tuple[float | str, ...]


class Order(NamedTuple, Generic[T]):
    """An order of rows by a column."""

    label: str
    """Its name in the list of orders."""
    key: Callable[[T], Rank | None]
    """Returns the value to sort by; None: it is unknown."""
    descending: bool = True
    """Whether the largest value comes first, unless the order is reversed."""


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


def column_of(sort: str, default: str) -> str:
    """Return the column of an order in an address: its name, reversed with a leading ``-``; empty: the default."""
    return sort.removeprefix("-") or default


def sorted_by(sort: str, default: str, column: str) -> str:
    """Return the order by a column as in an address; the reverse one if it is the order already."""
    same = column == column_of(sort, default) and not sort.startswith("-")
    return f"-{column}" if same else "" if column == default else column


def choices(orders: Mapping[str, Order[T]]) -> dict[str, str]:
    """Return the names of orders for a list to choose from, in the current language."""
    return {name: gettext(order.label) for name, order in orders.items()}
