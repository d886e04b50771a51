"""The text of an answer: compact JSON with times in ISO 8601, cut to what a model can read.

A model pays for each character that it reads, and forgets what it was asked for when they are many.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from pydantic_core import to_json

from rebalance_model.observe.rules.lifecycle import UNITS
from rebalance_model.observe.rules.registry import RULES
from streaming.base.times import written
from streaming.queries.results import QueryResult, times_of

CHARACTERS: Final = 8_000
"""The length of a brief answer, about 2,500 tokens."""
_TEXT: Final = 1_000
"""The length of one value in it."""

Detail = Annotated[
    Literal["brief", "full"],
    Field(description="full: all fields and elements, however long."),
]
_DETAIL: Final = Parameter("detail", Parameter.KEYWORD_ONLY, default="brief", annotation=Detail)
_TIMES_IN_EVIDENCE: Final = frozenset(
    name for units in (UNITS, *(rule.units for rule in RULES)) for name, unit in units.items() if unit == "epoch_ms"
)
_OLDEST_FIRST: Final = ("time", "start_time")


def in_words(tool: Callable[..., Any]) -> Callable[..., str]:
    """Return the tool with the parameter `detail`, and its answer as text.

    Args:
        tool: a question; its answer is a result of the queries, or text already.
    """

    @wraps(tool)
    def ask(*, detail: str = "brief", **asked: Any) -> str:
        answer = tool(**asked)
        return answer if isinstance(answer, str) else answer_text(answer, detail)

    asked = signature(tool, eval_str=True)
    ask.__signature__ = asked.replace(  # type: ignore[attr-defined]
        parameters=[*asked.parameters.values(), _DETAIL], return_annotation=str
    )
    return ask


def answer_text(answer: QueryResult, detail: str = "brief") -> str:
    """Return an answer as compact JSON.

    A brief one has no field that is null, empty or false, and at most `CHARACTERS` where lists can be cut so far;
    `left_out` then has the number of elements that each list lacks, by its path.
    """
    if detail == "full":
        return to_json(_plain(answer)).decode()
    shaped = _brief(_plain(answer))
    if len(text := to_json(shaped).decode()) <= CHARACTERS:
        return text
    _fit(shaped, len(text) - CHARACTERS)
    return to_json(shaped).decode()


def _plain(value: Any, *, is_time: bool = False, in_evidence: bool = False) -> Any:
    """Return a value as what JSON has, points in time as ISO 8601."""
    if is_time:
        return None if value is None else written(value)
    if isinstance(value, QueryResult):
        times = times_of(type(value))
        return {
            name: _plain(getattr(value, name), is_time=name in times, in_evidence=name == "evidence")
            for name in type(value).model_fields
        }
    if isinstance(value, Mapping):
        return {
            name: _plain(one, is_time=in_evidence and name in _TIMES_IN_EVIDENCE and isinstance(one, int))
            for name, one in value.items()
        }
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _brief(value: Any) -> Any:
    if isinstance(value, dict):
        shorter = {name: _brief(one) for name, one in value.items()}
        return {name: one for name, one in shorter.items() if not _says_nothing(name, one, shorter)}
    if isinstance(value, str) and len(value) > _TEXT:
        return f"{value[:_TEXT]}…"
    return [_brief(one) for one in value] if isinstance(value, list) else value


def _says_nothing(name: str, value: Any, beside: Mapping[str, Any]) -> bool:
    """Return whether a field is empty, or repeats its neighbour: the main explanation is often the incident's own."""
    if value is None or value is False or value in ("", [], {}):
        return True
    return name.startswith("main_") and value == beside.get(name.removeprefix("main_"))


def _fit(answer: dict[str, Any], excess: int) -> None:
    """Cut the longest lists of an answer until it is shorter by so many characters, or each has one element."""
    left_out: dict[str, int] = answer.setdefault("left_out", {})
    excess += len('"left_out":{},')
    while excess > 0:
        lists = [(len(to_json(one)), path, one) for path, one in _lists(answer) if len(one) > 1]
        if not lists:
            return
        _, path, longest = max(lists, key=lambda found: found[0])
        excess += (path not in left_out) * len(f'"{path}":99999,')
        while excess > 0 and len(longest) > 1:
            excess -= len(to_json(longest.pop(0 if _is_oldest_first(longest) else -1))) + 1
            left_out[path] = left_out.get(path, 0) + 1


def _lists(value: Any, path: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Yield each list in a value with its path; the elements of a list share theirs."""
    if isinstance(value, list):
        yield path, value
        for element in value:
            if isinstance(element, dict):  # not the cells of a row
                yield from _lists(element, path)
    elif isinstance(value, dict):
        for name, field in value.items():
            yield from _lists(field, f"{path}.{name}" if path else name)


def _is_oldest_first(rows: list[Any]) -> bool:
    """Return whether the newest rows are at the end: these are kept."""
    first, last = rows[0], rows[-1]
    return isinstance(first, dict) and any(first.get(name, "") < last.get(name, "") for name in _OLDEST_FIRST)
