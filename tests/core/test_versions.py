"""The numbers by which clients and brokers name their releases."""

import pytest

from rebalance_model.dialect import release_of


@pytest.mark.parametrize(
    ("number", "release"),
    [(-1, None), (0, None), (59, "3.x"), (213, "4.0.0"), (407, "4.9.7"), (475, "5.3.1"), (492, "5.4.0-SNAPSHOT"),
     (611, "5.9.9"), (612, "6.0 or later")],
)  # fmt: skip
def test_a_version_number_is_the_ordinal_of_its_release(number, release):
    assert release_of(number) == release
