"""The spans in which conditions held, put together from samples, one a second."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.detection.conditions import Condition

ALLOWED = "allowed"
"""The level of every condition. The other levels are the kinds of telemetry by which an incident is required."""


@dataclass
class Span:
    """From the first sample with the condition to the last; epoch milliseconds of true time."""

    begin: int
    end: int


@dataclass
class Spans:
    """The spans of one group, by level (`ALLOWED`, hook, poll, both), rule and subject."""

    by_level: dict[str, dict[tuple[str, str], list[Span]]] = field(default_factory=dict)

    def add(self, now: int, previous: int, conditions: Iterable[Condition]) -> None:
        """Add a sample: extend the spans that reached the previous sample, and begin the others."""
        for condition in conditions:
            for level in (ALLOWED, *condition.required):
                spans = self.by_level.setdefault(level, {}).setdefault((condition.code, condition.subject), [])
                if spans and spans[-1].end == previous:
                    spans[-1].end = now
                elif not spans or spans[-1].end < now:
                    spans.append(Span(now if level != ALLOWED else condition.since or now, now))

    def of(self, level: str, code: str, subject: str) -> list[Span]:
        """Return the spans of one rule and subject."""
        return self.by_level.get(level, {}).get((code, subject), [])

    def at(self, level: str) -> Iterator[tuple[str, str, Span]]:
        """Yield the rule, subject and span of every span of a level."""
        for (code, subject), spans in self.by_level.get(level, {}).items():
            for span in spans:
                yield code, subject, span
