"""A span: a piece of work with its times and its parts, which `streaming.serve.otlp` pushes as a trace."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Attribute: TypeAlias = str | bool | int | float


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of work."""

    name: str
    began_ns: int
    """Epoch nanoseconds, as `ended_ns`."""
    ended_ns: int
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    parts: tuple["Span", ...] = ()
    cluster: str = ""
    """The subject of a whole trace; empty: no single cluster."""
