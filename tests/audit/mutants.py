"""Faults that are put into the program one at a time, or all together: the audit must find each of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import unwrap
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from rebalance_model.observe.effects import AnyRow, GroupSnapshot, IncidentTransition, QueueProgress
from rebalance_model.observe.group import ownership
from rebalance_model.observe.progress import hooks, log
from rebalance_model.observe.rules import lock_orphaned
from streaming.base.settings import load_settings
from streaming.queries import clients
from streaming.serve.store import Store
from streaming.serve.web.access import access
from streaming.serve.web.server import api_application
from streaming.tables import catalog, reader, table
from tests.audit.answers import Api
from tests.support.served import answering

SHIFTED_MS = 1_000
SQL = "progress_at"
"""The function of an instant by which lag and waiting time are found."""


class Mutant(NamedTuple):
    """A fault."""

    name: str
    found_by: str
    """The kind of difference that shows it."""
    put_in: Callable[[pytest.MonkeyPatch], None] = lambda _: None
    """Puts it into the program."""
    written: Callable[[AnyRow], AnyRow] = lambda row: row
    """What it makes of a row of the job."""
    sources: tuple[str, ...] = ("hook", "poll")
    """The kinds of sources by whose telemetry it shows."""


def _wrong_owner(patch: pytest.MonkeyPatch) -> None:
    believed = ownership._believed_owner

    def wrong(step, mq, queue, current):
        owner = believed(step, mq, queue, current)
        others = sorted(step.facts.members - {owner}) if owner is not None and mq.topic == "Audit" else ()
        return others[0] if others else owner

    patch.setattr(ownership, "_believed_owner", wrong)


def _more_lag(row: AnyRow) -> AnyRow:
    if not isinstance(row, QueueProgress) or row.kind != "CONSUME_STATS":
        return row
    return msgspec.structs.replace(row, lag=tuple(None if lag is None else lag + 1 for lag in row.lag))


def _higher_bound(patch: pytest.MonkeyPatch) -> None:
    lag_of = hooks._hook_lag

    def higher(queue, since):
        lag, at_least = lag_of(queue, since)
        return (lag + 1 if at_least and lag is not None else lag), at_least

    patch.setattr(hooks, "_hook_lag", higher)


def _refused_commits(patch: pytest.MonkeyPatch) -> None:
    observed = log.on_pull
    patch.setattr(log, "on_pull", lambda state, event: observed(state, msgspec.structs.replace(event, code=None)))


def _in_sql(was: str, becomes: str) -> Callable[[pytest.MonkeyPatch], None]:
    def put_in(patch: pytest.MonkeyPatch) -> None:
        known = catalog.in_duckdb()
        assert was in known[SQL].sql
        changed = known | {SQL: known[SQL]._replace(sql=known[SQL].sql.replace(was, becomes))}
        uncached = unwrap(catalog.expanded)
        for place in (catalog, table):
            patch.setattr(place, "in_duckdb", lambda: changed)
        for place in (catalog, reader):
            patch.setattr(place, "expanded", uncached)

    return put_in


def all_are_members(patch: pytest.MonkeyPatch) -> None:
    """Show each client as a member."""
    made = clients.GroupClient
    patch.setattr(clients, "GroupClient", lambda **fields: made(**fields | {"is_member": True}))


def _those_that_left_are_shown(patch: pytest.MonkeyPatch) -> None:
    ever = """
        SELECT g.cluster, g.group, g.time, (
            SELECT list_distinct(flatten(list(s.members))) FROM group_state s
            WHERE s.cluster = g.cluster AND s.group = g.group AND s.time <= from_ms($instant)
        ) AS clients
        FROM groups_at(from_ms($instant)) g
        WHERE ($cluster IS NULL OR g.cluster = $cluster) AND ($group IS NULL OR g.group = $group)
    """
    patch.setitem(clients._SQL, "members", ever)


def _members_stay(row: AnyRow, seen: dict[str, tuple[str, ...]] = {}) -> AnyRow:  # noqa: B006  of one run
    if not isinstance(row, GroupSnapshot):
        return row
    seen[row.group] = tuple(sorted({*seen.get(row.group, ()), *row.members}))
    return msgspec.structs.replace(row, members=seen[row.group])


def _shifted(code: str, part: str) -> Mutant:
    def written(row: AnyRow) -> AnyRow:
        if not isinstance(row, IncidentTransition) or row.code != code:
            return row
        is_it = row.transition == ("OPENED" if part == "begin" else "RESOLVED")
        changed = msgspec.structs.replace(row, time=row.time + SHIFTED_MS) if is_it else row
        opened_at = changed.opened_at + (SHIFTED_MS if part == "begin" else 0)
        return msgspec.structs.replace(changed, opened_at=opened_at)

    return Mutant(f"{code}'s {part} a second later", f"{code}'s {part} by raw events", written=written)


STALE, WAITING_STALE = "> 2 * CASE WHEN q.is_bound", "> 2 * CASE WHEN q.is_span"
MUTANTS = (
    Mutant("another owner", "owner", _wrong_owner),
    Mutant("the lag of an answer + 1", "lag", written=_more_lag),
    Mutant("the bound of a hook + 1", "hook row: lag", _higher_bound),
    Mutant("a bound by a hook's commit + 1", "lower bound in place of a lag",
           _in_sql("- m.hook_commit ELSE m.bound END", "- m.hook_commit + 1 ELSE m.bound END")),
    Mutant("a refused pull commits", "hook row: commit", _refused_commits),
    Mutant("a lag is stale at once", "stale lag", _in_sql(STALE, STALE.replace("2", "0.1"))),
    Mutant("a waiting time is stale an interval later", "stale waiting time",
           _in_sql(WAITING_STALE, WAITING_STALE.replace("2", "3"))),
    Mutant("members that left are shown", "members by REST", _those_that_left_are_shown),
    Mutant("a lock is orphaned 25 s later", "LOCK_ORPHANED's begin by raw events",
           lambda patch: patch.setattr(lock_orphaned, "BACK_WITHIN", 30_000)),
)  # fmt: skip
"""Those that can be in the program together: each is found by a kind of its own."""
ALONE = (
    Mutant("a lag is stale an interval later", "stale lag", _in_sql(STALE, STALE.replace("2", "3")), sources=("poll",)),
    Mutant("the bound of a hook alone + 1", "lag by hook alone", _higher_bound, sources=("hook",)),
    Mutant("members are never removed", "members by REST", written=_members_stay),
    _shifted("LOCK_ORPHANED", "begin"),
)


def of_rules(codes_and_parts: Iterator[tuple[str, str]]) -> list[Mutant]:
    """Return each part of these rules' incidents, a second later."""
    return [_shifted(code, part) for code, part in codes_and_parts if (code, part) != ("LOCK_ORPHANED", "begin")]


@contextmanager
def served_here(root: Path) -> Iterator[Api]:
    """Serve the tables of a runtime root by this process, so that what is put into the program counts."""
    settings = load_settings(runtime={"root": root})
    with Store(settings.runtime.tables) as store:
        application = api_application(settings, store, access("127.0.0.1", settings.web))
        with answering(application) as address:
            yield Api(address, root)
