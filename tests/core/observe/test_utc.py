"""An instant as text equals the standard library's."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from rebalance_model.observe.snapshots import utc

YEAR_9999 = 253_402_300_799_999


@given(st.integers(0, YEAR_9999))
def test_every_instant_is_as_the_standard_library_writes_it(time_ms):
    assert utc(time_ms) == datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
