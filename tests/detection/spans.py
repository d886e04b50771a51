"""When something held, put together from looks at it, one a second."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

MAY = "may"
"""It holds, by the widest reading of the rule: who opens an incident now is not wrong. Beside it in a `Condition`, the
telemetry by which it surely holds and is to be seen: who opens none misses it."""


@dataclass(frozen=True)
class Condition:
    """What a rule is about is so of one subject, now."""

    code: str
    subject: str
    surely: frozenset[str] = frozenset()
    """By which telemetry that is to be seen: hook, poll."""
    since: int | None = None
    """Since when, where that was before it could be told; epoch milliseconds."""


@dataclass
class Span:
    """From the first look that saw it to the last; epoch milliseconds of true time."""

    begin: int
    end: int


@dataclass
class Spans:
    """The spans of one group, by rule, subject and level (`MAY`, hook, poll)."""

    by_level: dict[str, dict[tuple[str, str], list[Span]]] = field(default_factory=dict)

    def look(self, now: int, before: int, seen: Iterable[Condition]) -> None:
        """Take down what is so now; what was so at the look before has gone on."""
        for one in seen:
            for level in (MAY, *one.surely):
                spans = self.by_level.setdefault(level, {}).setdefault((one.code, one.subject), [])
                if spans and spans[-1].end == before:
                    spans[-1].end = now
                elif not spans or spans[-1].end < now:
                    spans.append(Span(now if level != MAY else one.since or now, now))

    def of(self, level: str, code: str, subject: str) -> list[Span]:
        """The spans of one subject."""
        return self.by_level.get(level, {}).get((code, subject), [])

    def all_of(self, level: str) -> Iterator[tuple[str, str, Span]]:
        """Every span of a level."""
        for (code, subject), spans in self.by_level.get(level, {}).items():
            for span in spans:
                yield code, subject, span
