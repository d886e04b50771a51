"""Filter and sort the groups of the home page."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from streaming.base.language import marked
from streaming.base.nearest import one_of
from streaming.queries.group_health import GroupKey
from streaming.queries.health import HEALTH
from streaming.queries.results import Group
from streaming.serve.dashboard.parts.ordering import Order, Rank, SortedFilters, number

NOT_OK = "not-ok"
HEALTHS: Mapping[str, str] = {
    "": marked("Any health"),
    NOT_OK: marked("Not OK"),
    **dict[str, str](zip(HEALTH, HEALTH, strict=True)),
}


def _severity(group: Group) -> Rank:
    return group.incidents.critical, group.incidents.warning, group.incidents.info


ORDERS: Mapping[str, Order[Group]] = {
    "health": Order(marked("Worst first"), lambda g: (-HEALTH[g.health].rank, *_severity(g))),
    "group": Order(marked("By name"), lambda g: (g.group.lower(), g.cluster), descending=False),
    "incidents": Order(marked("Most incidents"), _severity),
    "lag": Order(marked("Largest lag"), lambda g: number(g.lag)),
    "members": Order(marked("Most members"), lambda g: (len(g.members),)),
    "queues": Order(marked("Most queues"), lambda g: (g.queues,)),
    "unowned": Order(marked("Most unassigned"), lambda g: number(g.unowned)),
    "last_rebalance": Order(marked("Latest rebalance"), lambda g: number(g.last_rebalance)),
    "time": Order(marked("Oldest update"), lambda g: (g.time,), descending=False),
}
"""The orders by the name of their column; the first one is used if none is chosen."""


@dataclass(frozen=True, kw_only=True)
class GroupFilters(SortedFilters[Group]):
    """The filters and the order, as in the address; empty: any, and the default."""

    find: str = ""
    """A part of the name of a group or cluster, or of what `find_owned` finds."""
    health: str = ""
    """One of `HEALTHS`."""
    cluster: str = ""

    @property
    def orders(self) -> Mapping[str, Order[Group]]:
        """The orders by the name of their column."""
        return ORDERS

    @property
    def text(self) -> str:
        """The text to find, in lower case."""
        return self.find.strip().lower()


def checked(filters: GroupFilters) -> GroupFilters:
    """Return the filters if each has a known value.

    Raises:
        InvalidValueError: one has not.
    """
    return replace(filters, health=one_of("health", filters.health, HEALTHS)).with_known_order()


def listed(groups: Iterable[Group], filters: GroupFilters, owned: Collection[GroupKey] = ()) -> list[Group]:
    """Return the groups that match the filters, in order.

    Args:
        groups: all groups.
        filters: the filters and the order.
        owned: groups with a queue that was found by the text.
    """
    by_name = sorted((g for g in groups if _matches(g, filters, owned)), key=lambda g: (g.cluster, g.group))
    return filters.in_order(by_name)


def _matches(group: Group, filters: GroupFilters, owned: Collection[GroupKey]) -> bool:
    if filters.cluster and group.cluster != filters.cluster:
        return False
    if filters.health and (group.health == "OK" if filters.health == NOT_OK else group.health != filters.health):
        return False
    names = " ".join((group.group, group.cluster, *group.members)).lower()
    return filters.text in names or (group.cluster, group.group) in owned
