"""Answers as events; how often one came, was missing or could not be read; warnings once instead of each round."""

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from rebalance_model.observe.events import UNREADABLE, Event, RpcError
from streaming.base.limits import UNREADABLE_KEPT
from streaming.collect.cluster_responses import ListedBroker
from streaming.collect.emitter import Emitter, UnsendableError
from streaming.collect.poll_round import PolledAnswer, PolledGroup, Summary

_KEPT = 1_000
"""Different warnings that are known; beyond that all are forgotten, and may come again."""
_IN_A_ROUND = 20


class RoundWarnings:
    """Prints each warning once: their texts may come from anybody, so there may be any number of them."""

    def __init__(self, log: Any) -> None:
        """Print to a structlog logger."""
        self._log = log
        self._printed: set[str] = set()
        self._in_round = 0

    def begin_round(self) -> None:
        """Begin another round, and say how many warnings of the last one were not printed."""
        if (more := self._in_round - _IN_A_ROUND) > 0:
            self._log.warning("further warnings of this round were not printed", number=more)
        self._in_round = 0

    def warn(self, event: str, *, exc_info: BaseException | None = None, **values: object) -> None:
        """Print a warning, unless an equal one was; ``exc_info``, for its traceback at level debug, does not count."""
        key = f"{event} {values}"
        if key in self._printed:
            return
        if len(self._printed) >= _KEPT:
            self._printed.clear()
        self._printed.add(key)
        if self.say(event, **values) and exc_info is not None:
            self._log.debug(event, exc_info=exc_info)

    def say(self, event: str, **values: object) -> bool:
        """Print a warning, unless there were too many in this round; return whether it was printed."""
        self._in_round += 1
        if self._in_round > _IN_A_ROUND:
            return False
        self._log.warning(event, **values)
        return True


log = structlog.get_logger()


@dataclass(eq=False)
class PolledEvents:
    """Emits answers as events, and counts them for the summary of the round."""

    emitter: Emitter
    warnings: RoundWarnings
    tally: Summary = field(default_factory=Summary, init=False)

    def take(self) -> Summary:
        """Return the numbers so far, and count from here on."""
        summary, self.tally = self.tally, Summary()
        return summary

    def emit(self, kind: type[Event], answer: PolledAnswer, **fields: Any) -> bool:
        """Emit an answer as an event, or the error if it is missing or invalid; return whether there was an answer."""
        self.emitter.follow_clock()
        return self.emit_as_set(kind, answer, **fields)

    def emit_as_set(self, kind: type[Event], answer: PolledAnswer, **fields: Any) -> bool:
        """Do the same by the clock as it was just followed: the answer's times and the event's own are by one clock."""
        time_of = self.emitter.clock.time_of
        emit = partial(
            self.emitter.emit_as_set, kind, asked=time_of(answer.asked), answered=time_of(answer.answered), **fields
        )
        error = answer.error
        if answer.payload is not None:
            try:
                emit(**answer.payload)
            except UnsendableError as problem:
                error = RpcError(code=UNREADABLE, remark=str(problem))
        if (answer.payload or {}).get("unreadable") or (error is not None and error.code == UNREADABLE):
            self._note_unreadable(kind, answer, error, fields)
        if error is None:
            self.tally.answered += 1
            return True
        self.tally.errors += 1
        try:
            emit(error=error)
        except UnsendableError as problem:  # a name that no event can have
            log.warning("an answer is left out", event_type=kind.__name__, reason=str(problem))
        return False

    def state(self, kind: type[Event], answer: PolledAnswer, **fields: Any) -> None:
        """Emit whether a server answers, of which the answer itself is an event of its own, and counts."""
        self.emitter.follow_clock()
        time_of, error = self.emitter.clock.time_of, answer.error
        fields |= {"asked": time_of(answer.asked), "answered": time_of(answer.answered)}
        fields |= {"error": error} if error is not None else {}
        with suppress(UnsendableError):  # a name that no event can have: the answer's own event says so
            self.emitter.emit_as_set(kind, **fields)

    def emit_of(
        self,
        group: PolledGroup,
        kind: type[Event],
        answer: PolledAnswer,
        *,
        broker: ListedBroker | None = None,
        **fields: str,
    ) -> bool:
        """Do the same about a group, by the broker that was asked, if any."""
        replica = {} if broker is None else {"broker": broker.name, "broker_id": broker.broker_id}
        return self.emit(kind, answer, cluster=group.cluster, group=group.name, **replica, **fields)

    def _note_unreadable(
        self, kind: type[Event], answer: PolledAnswer, error: RpcError | None, fields: dict[str, Any]
    ) -> None:
        """Count an answer that can't be read, whole or in part, and print its source and reason once."""
        self.tally.unreadable += 1
        sender = fields.get("client_id") or fields.get("proxy") or fields.get("broker", "")
        for text in (error.remark,) if error is not None else (answer.payload or {})["unreadable"]:
            self.warnings.warn("an answer can't be read", event_type=kind.__name__, sender=sender, reason=text)
            if len(self.tally.unreadable_texts) < UNREADABLE_KEPT:
                self.tally.unreadable_texts.append(f"{sender}: {text}")
