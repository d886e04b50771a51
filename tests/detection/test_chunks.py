"""What a chunk of seeds has shown is kept, and not made again by the same code."""

import pytest

from tests.detection import chunks
from tests.detection.proof import Proof
from tests.detection.scoring import Score


@pytest.fixture
def ran(monkeypatch):
    """The seeds that were run."""
    seeds = []

    def prove(chunk, processes):
        for seed in chunk:
            seeds.append(seed)
            yield Proof(1, int(seed % 3 == 0), {("LOCK_EXPIRED", "hook"): Score(right=1, late=[0.5])}, [f"seed {seed}"])

    monkeypatch.setattr(chunks, "prove", prove)
    return seeds


def total(folder, seeds):
    proof = Proof()
    for chunk in chunks.resume(folder, seeds):
        proof.take(chunk)
    return proof


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path, ran):
    next(chunks.resume(tmp_path, range(40)))
    assert ran == list(range(16))
    whole = total(tmp_path, range(40))
    assert ran == list(range(40))
    assert (whole.seeds, whole.healthy, len(whole.alarms)) == (40, 14, 40)
    assert whole.scores["LOCK_EXPIRED", "hook"].right == 40
    assert total(tmp_path, range(40)) == whole
    assert len(ran) == 40


def test_what_other_code_has_shown_is_not_taken_for_this_ones(tmp_path, ran, monkeypatch):
    total(tmp_path, range(3))
    monkeypatch.setattr(chunks, "digest", lambda: "other")
    total(tmp_path, range(3))
    assert ran == [0, 1, 2, 0, 1, 2]
