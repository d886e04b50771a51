"""A state that contradicts itself is a bug of ours: it is reported, and neither ends the fold nor changes a row."""

from rebalance_model.observe.engine.timeline import CHECKED_EVERY
from rebalance_model.observe.state import GroupState
from tests.core.test_shard import LOG, POLICY
from tests.support.folding import Fold


def damaged(fold: Fold) -> GroupState:
    """A group whose owners are not counted right any more; no row depends on that."""
    state = fold.shard.timeline.group("c", "g")
    state.unsettled["nothing"] = 1
    return state


def test_a_sound_log_has_no_contradictions_and_one_is_found_and_folded_on():
    sound, broken = Fold(POLICY), Fold(POLICY)
    half = len(LOG) // 2
    for event in LOG[:half]:
        assert sound.push(event) == broken.push(event)
    damaged(broken)
    for event in LOG[half:]:
        assert sound.push(event) == broken.push(event)
    assert sound.shard.timeline.contradictions == {}
    assert broken.shard.timeline.contradictions == {"c/g": "c/g: the subjects of incidents are not counted right"}


def test_the_larger_a_group_the_fewer_of_its_events_are_checked():
    fold = Fold(POLICY)
    for event in LOG[: len(LOG) // 2]:
        fold.push(event)
    state = damaged(fold)
    every = CHECKED_EVERY * (1 + len(state.queues))
    assert every > CHECKED_EVERY
    for seq in (1, CHECKED_EVERY, every - 1):
        fold.shard.timeline._check(state, seq)
    assert fold.shard.timeline.contradictions == {}
    fold.shard.timeline._check(state, 2 * every)
    assert list(fold.shard.timeline.contradictions) == ["c/g"]
