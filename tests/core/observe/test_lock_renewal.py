"""The most frequent call of an ordered group that changes nothing, the renewal of its locks, is a short walk."""

from tests.instruments.bench.bench_core import lock_renewal


def test_a_renewal_that_changes_nothing_touches_few_modules():
    """It was 39 modules and 203 returns once: an event had lost its subject on its way."""
    walk = lock_renewal()
    assert walk["lock renewal: calls"] <= 220
    assert walk["lock renewal: modules"] <= 20
    assert walk["lock renewal: returns to another module"] <= 60
