"""Collect what a shard could not read or process, so that it costs a group and not the job.

A program that runs for long contains such failures: the group begins again, and each failure is noted here for the
operator, which keeps it in `telemetry_rejected`. Everywhere else, as in tests, a failure is raised.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

import msgspec

from rebalance_model.observe.events import Event
from rebalance_model.observe.state import LostPart

LOST_MAX = 100
"""No more failures, and no more refused events, are kept of a batch: all may be of an event that comes again."""
ERROR_CHARACTERS_MAX = 500
"""A longer error is cut: it may repeat a name or a number of any length."""


class Lost(NamedTuple):
    """One failure."""

    part: LostPart | Literal["SOURCE"]
    """The lost part; SOURCE: an event of a source for which there was no place."""
    key: str
    """The group, cluster/group; empty: the shard itself."""
    error: str
    """The reason, in words."""
    value: bytes
    """The blob that can't be read, or the event as JSON; empty: a timer."""
    trace: str
    """Where an event failed, as Python prints it."""


class Losses:
    """The failures of a shard since they were last taken."""

    def __init__(self, *, contained: bool) -> None:
        self.contained = contained
        """True if a failure is noted; otherwise it is raised."""
        self._found: list[Lost] = []
        self._refused: list[Lost] = []

    def note(self, part: LostPart, key: str, error: Exception, value: bytes | Event | None) -> str:
        """Note a failure, and return the reason in words; raise it if failures are not contained."""
        if not self.contained:
            raise error
        reason = (str(error) if part != "EVENT" else f"{type(error).__name__}: {error}")[:ERROR_CHARACTERS_MAX]
        content = msgspec.json.encode(value) if isinstance(value, Event) else value or b""
        if len(self._found) < LOST_MAX:
            self._found.append(Lost(part, key, reason, content, "".join(traceback.format_exception(error))))
        return reason

    def refuse(self, event: Event, reason: str) -> None:
        """Note an event that is not used, because of its source: no failure, so it is never raised."""
        if len(self._refused) < LOST_MAX:
            self._refused.append(Lost("SOURCE", "", reason, msgspec.json.encode(event), ""))

    @contextmanager
    def containing(self, event: Event | None = None) -> Iterator[None]:
        """Note a failure of the block, so that it costs no more than this event; None: a timer, or a judgement."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  it is raised where failures are not contained
            self.note("EVENT", "", error, event)

    def take(self) -> list[Lost]:
        """Return the failures since the last call, then the refused events."""
        found, self._found, self._refused = [*self._found, *self._refused], [], []
        return found
