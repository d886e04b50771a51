"""The search for cyclic garbage, left out meanwhile."""

import gc

import pytest

from streaming.base.process import without_collection


def fold_and_fail(seen):
    with without_collection():
        seen.append(gc.isenabled())
        raise ValueError("within")


def test_garbage_is_collected_again_after_an_error():
    seen = []
    with pytest.raises(ValueError, match="within"):
        fold_and_fail(seen)
    assert (seen, gc.isenabled()) == ([False], True)
