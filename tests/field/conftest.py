"""In the short form a test takes each value of its parameters, but not every combination of them, and of the kinds of
telemetry all but one: tests of the same report leave out different ones.
"""

import zlib

import pytest

from tests.support.combinations import is_in_short_form


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the combinations of the long form."""
    marks = [mark.args[:2] for mark in item.iter_markers("parametrize")]
    if marks and not (is_in_short_form(item.callspec.params, marks) and _has_its_turn(item, dict(marks))):
        item.add_marker(pytest.mark.combination)
        item.add_marker(pytest.mark.prove)


def _has_its_turn(item: pytest.Item, parameters: dict[str, list[str]]) -> bool:
    """Return whether the short form takes this kind of telemetry; the name of a test decides which it leaves out."""
    sources = parameters.get("source", ())
    if len(sources) < 2 or len(parameters) > 1:
        return True
    turn = zlib.crc32(item.originalname.encode()) % len(sources)
    return item.callspec.params["source"] != sources[turn]
