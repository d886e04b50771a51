"""The short form has each value of each parameter, and no more combinations than that takes."""

from itertools import product

import pytest

from tests.support.combinations import is_in_short_form

PARAMETERS = [
    ("source", ["poll", "hook", "both"]),
    ("clients", [("a",), ("a", "b")]),
    (("away", "code"), [(232, 24), pytest.param(232, 25, id="later"), (160, 24), (85, 25)]),
]


def test_each_value_is_taken_in_as_few_combinations_as_there_are_values():
    chosen = [
        (source, clients, away, code)
        for source, clients, (away, code) in product(
            ["poll", "hook", "both"], [("a",), ("a", "b")], [(232, 24), (232, 25), (160, 24), (85, 25)]
        )
        if is_in_short_form({"source": source, "clients": clients, "away": away, "code": code}, PARAMETERS)
    ]
    assert len(chosen) == 4
    assert {one[0] for one in chosen} == {"poll", "hook", "both"}
    assert {one[1] for one in chosen} == {("a",), ("a", "b")}
    assert {one[2:] for one in chosen} == {(232, 24), (232, 25), (160, 24), (85, 25)}
