"""What all results have in common: immutable, times as epoch milliseconds, JSON."""

from typing import Annotated, TypeAlias, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

Instant: TypeAlias = Annotated[int, Field(json_schema_extra={"format": "epoch-ms"})]
"""A point in time: epoch milliseconds, in CSV ISO 8601."""


class QueryResult(BaseModel):
    """The base of all results: immutable, without extra fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def times_of(rows: type[QueryResult]) -> frozenset[str]:
    """Return the names of the fields that are points in time."""
    hints = get_type_hints(rows, include_extras=True)
    return frozenset(name for name, hint in hints.items() if Instant in (hint, *get_args(hint)))


def as_json(answer: object, *, indent: int | None = None) -> bytes:
    """Encode one result, several, or None as JSON, for the command line and the REST API alike."""
    return to_json(answer, indent=indent)
