"""Determine the instant shown as now, how old telemetry was at an instant, and the period of a question.

An answer about an instant is stale, and later unknown, if too little was heard before it: now as for any time.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, tzinfo
from typing import NamedTuple

from checkpoints.manifest import read_manifest
from rebalance_model.observe.policy import Policy
from streaming.base.errors import NotReadyError, UserError
from streaming.base.language import gettext, marked
from streaming.base.statements import statements_of
from streaming.base.times import DAY_MS, instant_ms, now_ms, written
from streaming.queries import labels
from streaming.queries.health import Health
from streaming.tables.reader import ReadModel


def snapshot_interval_ms(model: ReadModel) -> int:
    """Return the longest interval, in milliseconds, in which every group is written even if nothing changed.

    It is read from the policy that the job keeps with its checkpoints. If these are not beside the tables or cannot be
    read, the default policy is used.
    """
    policy = policy_of(model)
    own = (each for group in policy.group if isinstance(each := group.get("snapshot_interval"), int))
    return max([policy.snapshot_interval, *own])


def policy_of(model: ReadModel) -> Policy:
    """Return the policy that the job keeps with its checkpoints; the default one if it can't be read there."""
    try:
        kept = read_manifest(model.checkpoints)
    except (UserError, OSError):
        kept = None
    return kept.basis.policy if kept is not None else Policy()


_SQL = statements_of(__name__)

STATE_MISSED = 3
"""Every group is written each snapshot interval; after this many intervals without a row, telemetry has stopped."""
UNHEARD_AFTER = 180_000
"""Every source sends a TICK each second, and polls have answers each round: after this long without any, telemetry has
stopped; milliseconds."""
STALE_AFTER = 60_000
"""After this long without any of these, or after two intervals of the last answer if that is longer, what is said is
stale; milliseconds."""
_AGE_STEP_MS = 5_000
"""The least difference of an age for which a page is shown again."""


class Heard(NamedTuple):
    """The last telemetry that was heard by an instant; times in epoch milliseconds, durations in milliseconds."""

    last: int
    """The time of the newest row."""
    instant: int
    stale_after: int = STALE_AFTER
    silent_after: int = UNHEARD_AFTER
    by_sources: bool = True
    """True if sources were heard; otherwise only the state of groups was, which is written every few minutes."""

    @property
    def age_ms(self) -> int:
        """The age of the newest telemetry."""
        return max(0, self.instant - self.last)

    @property
    def is_silent(self) -> bool:
        """Return whether telemetry had stopped: the state at the instant is unknown."""
        return self.instant - self.last >= self.silent_after

    @property
    def is_stale(self) -> bool:
        """Return whether the state may have changed unseen: little or no telemetry was heard lately."""
        return self.is_silent or self.instant - self.last >= self.stale_after


class HistoryBounds(NamedTuple):
    """The beginning and end of history, and what had been heard by the instant that is shown."""

    first: int
    """The first instant, epoch milliseconds."""
    heard: Heard
    """The telemetry heard by now."""
    at: Heard | None = None
    """The telemetry heard by a requested instant; None: now is shown."""

    @property
    def last(self) -> int:
        """The time of the newest row."""
        return self.heard.last

    @property
    def silent(self) -> bool:
        """Return whether telemetry has stopped: the current state is unknown."""
        return self.heard.is_silent

    @property
    def live(self) -> int:
        """The instant shown as now: the clock's, or `last` if telemetry has stopped."""
        return self.last if self.silent else max(self.heard.instant, self.last)

    @property
    def at_instant(self) -> Heard:
        """Return what had been heard by the instant that is shown."""
        return self.heard if self.at is None else self.at

    def nearest(self, at: int) -> int:
        """Return the instant with telemetry that was probably meant by one without; epoch milliseconds.

        Of one after the end of history it is the same time of the last day, as of ``15:57`` over a recording.
        """
        if at <= self.last:
            return self.at_instant.last
        on_last_day = at - -(-(at - self.last) // DAY_MS) * DAY_MS
        return on_last_day if on_last_day >= self.first else self.last

    def said(self, at: int | None, ask: Callable[[int], str]) -> str | None:
        """Return the sentence that says of which instant an answer is, and what is not known of it.

        Args:
            at: the requested instant, epoch milliseconds; None: now, or the last telemetry if that has ended.
            ask: writes an instant as the reader would ask for it.

        Returns:
            None: it is of now, and all is known.
        """
        heard = self.at_instant
        last, age = written(heard.last), labels.duration(heard.age_ms)
        if not heard.is_stale:
            return None if at is None else gettext("As of {time}.", time=written(at))
        if at is None:
            ended = marked("As of {last}, the last telemetry, {age} ago: what has changed since is unknown.")
            late = marked("No telemetry since {last}, for {age}: what is shown is stale.")
            return gettext(ended if heard.is_silent else late, last=last, age=age)
        return gettext(
            "As of {time}, {age} after the last telemetry ({last}): nothing is known of that time, and what is shown "
            "is the last known state. Did you mean {nearest}?",
            time=written(at), age=age, last=last, nearest=ask(self.nearest(at)),
        )  # fmt: skip

    def by(self, now: int | None = None) -> "HistoryBounds":
        """Return the ends if nothing has been heard by another time; by default the clock's."""
        return self._replace(heard=self.heard._replace(instant=now_ms() if now is None else now))

    def instant(self, at: int | None) -> int:
        """Return the instant that is shown: a given one, or the one shown as now; epoch milliseconds."""
        return self.live if at is None else at

    def has_turned(self) -> bool:
        """Return whether the passage of time has changed what is shown of now: the age of what is stale, too."""
        before, now = self.heard, self.by().heard
        if (before.is_silent, before.is_stale) != (now.is_silent, now.is_stale):
            return True
        return now.is_stale and now.age_ms - before.age_ms >= max(_AGE_STEP_MS, before.age_ms // 10)


def last_heard(model: ReadModel, last: int, now: int, cluster: str | None = None) -> Heard:
    """Return when telemetry was last heard by an instant.

    Without polls and without the archive only the rows of state show that telemetry continues.

    Args:
        model: the tables.
        last: the time of the newest row of state by the instant, epoch milliseconds.
        now: the instant, epoch milliseconds.
        cluster: the cluster; None: any.
    """
    if now - last < STALE_AFTER:
        return Heard(last, now)
    [heard] = model.rows_once(_SQL["heard"], {"since": last - UNHEARD_AFTER, "until": now, "cluster": cluster})
    if heard["last"] is None:
        return _by_state(last, now, snapshot_interval_ms(model))
    stale_after = max(STALE_AFTER, 2 * heard["interval_ms"])
    return Heard(max(last, heard["last"]), now, stale_after)


def _by_state(last: int, now: int, interval: int) -> Heard:
    return Heard(last, now, max(STALE_AFTER, 2 * interval), STATE_MISSED * interval, by_sources=False)


def known_ends(model: ReadModel, at: int | None = None) -> HistoryBounds | None:
    """Return the ends of history, and what had been heard by an instant if one is shown; None: there are no rows."""
    groups = model.span("group_state")
    if groups is None:
        return None
    first, last = groups
    # The last states of groups that `maintain` keeps are older than the history that is whole.
    first = min(last, max(first, model.dropped_before("group_state") or 0))
    last = max([last, *(span[1] for table in ("queue_state", "anomalies") if (span := model.span(table)))])
    heard = last_heard(model, last, now_ms())
    if at is None:
        return HistoryBounds(first, heard)
    return HistoryBounds(first, heard, _heard_by(model, at) if at < heard.last else heard._replace(instant=at))


def _heard_by(model: ReadModel, at: int) -> Heard:
    [state] = model.rows(_SQL["last_state"], {"at": at})
    return last_heard(model, at if state["last"] is None else state["last"], at)


class Freshness(NamedTuple):
    """The age of what is known of a group at the instant that is shown."""

    age_ms: int
    """The age of the newest telemetry of its cluster; milliseconds."""
    is_stale: bool
    """True if the group may have changed unseen since."""
    silent_since: int | None
    """Since when nothing was heard of it, epoch milliseconds: it is unknown; None: it is as shown."""
    last: int
    """The time of the newest telemetry of its cluster, or of it if it is silent; epoch milliseconds."""
    is_outdated: bool
    """True if its cluster's sources were not heard lately, so that no lag is known."""

    def health(self, reported: Health) -> tuple[Health, str] | None:
        """Return the health of a group, and the reason, if it is not the reported one; None: it is.

        Nothing is OK while no lag is known: whatever goes wrong may have begun since.
        """
        if self.silent_since is None and not (self.is_outdated and reported == "OK"):
            return None
        return "UNKNOWN", last_known(self.last, reported)


class SilenceByCluster:
    """The telemetry that had been heard of groups by an instant."""

    def __init__(self, model: ReadModel, at: int | None, groups: Iterable[tuple[str, int]]) -> None:
        """Ask when each cluster was last heard.

        Args:
            model: the tables.
            at: the instant, epoch milliseconds; None: now, or the last row if all telemetry has stopped: the groups
                are then as at that instant, and only their telemetry is as old as it is by now.
            groups: of each group its cluster and the time of its last row.
        """
        newest: dict[str, int] = {}
        for cluster, time in groups:
            newest[cluster] = max(newest.get(cluster, 0), time)
        self._at = present(model, at)
        self._clock = now_ms() if at is None else at
        self._interval = snapshot_interval_ms(model)
        self._heard = {cluster: last_heard(model, last, self._at, cluster) for cluster, last in newest.items()}

    def of(self, cluster: str, last: int) -> Freshness:
        """Return the freshness of a group whose last row has this time, epoch milliseconds."""
        heard, own = self._heard[cluster], _by_state(last, self._at, self._interval)
        silent_since = heard.last if heard.is_silent else last if own.is_silent else None
        counted = heard if silent_since in {None, heard.last} else own
        age, is_stale = counted._replace(instant=self._clock).age_ms, counted.is_stale
        return Freshness(age, is_stale, silent_since, counted.last, is_stale and counted.by_sources)


def last_known(silent_since: int, health: str) -> str:
    """Return the reason of a health that is unknown since a time, epoch milliseconds, and what it was then."""
    return gettext(
        "no telemetry since {time}; last known health: {health}", time=written(silent_since), health=gettext(health)
    )


def history_ends(model: ReadModel, at: int | None = None) -> HistoryBounds:
    """Return the ends of history, and what had been heard by an instant if one is shown.

    Raises:
        NotReadyError: there are no rows yet.
    """
    ends = known_ends(model, at)
    if ends is None:
        if (why := dropped_by_age(model)) is not None:
            raise NotReadyError(why)
        raise NotReadyError(gettext("No consumer groups yet: they appear as soon as the job has processed telemetry."))
    return ends


def dropped_by_age(model: ReadModel) -> str | None:
    """Return a sentence that says which groups `maintain` has dropped by age; None: it never has."""
    limit = model.dropped_before("group_state")
    if limit is None:
        return None
    return gettext(
        "Groups without rows since {time} were dropped by age (`maintain --older-than`).", time=written(limit)
    )


def present(model: ReadModel, at: int | None) -> int:
    """Return the instant at which quantities and ages are computed: the requested one, or now."""
    if at is not None:
        return at
    ends = known_ends(model)
    return ends.live if ends is not None else now_ms()


TIME_FORMS = "ISO 8601 (default: UTC), epoch seconds or milliseconds, a time ago such as 2h, or yesterday 14:00"
"""The forms of a time in a question of a program."""
_DEFAULT_MS = 3_600_000


class Period(NamedTuple):
    """A period, in epoch milliseconds."""

    since: int
    until: int


def asked_instant(time: str | int | None) -> int | None:
    """Return a time as a program has written it, UTC by default, in epoch milliseconds; None: now.

    Raises:
        UserError: the text is not a time.
    """
    return None if time is None else instant_ms(str(time), now_ms())


def period_of(model: ReadModel, since: str | int | None, until: str | int | None) -> Period:
    """Return the period between two times; by default the hour before its end, and its end is the instant shown as now.

    Raises:
        UserError: a text is not a time, or the period ends before it begins.
    """
    end = present(model, asked_instant(until))
    begin = end - _DEFAULT_MS if since is None else begin_of(model, since, end)
    if begin > end:
        raise UserError(gettext("since is later than until: swap them."))
    return Period(begin, end)


def begin_of(model: ReadModel, since: str | int | None, at: int | None, zone: tzinfo | None = UTC) -> int:
    """Return the begin of a period in epoch milliseconds; 0: the beginning of history.

    Args:
        model: the tables.
        since: as the user has written it: a time ago, such as ``1h``, is before the end of the period.
        at: the end of the period, epoch milliseconds; None: now, or the last telemetry if that has ended.
        zone: the zone of a time that names none; None is the machine's own.

    Raises:
        UserError: the text is not a time.
    """
    return 0 if since is None else instant_ms(str(since), present(model, at), zone)
