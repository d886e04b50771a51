"""The saved results of chunks: the same code does not run their seeds again."""

import pytest

from tests.detection import chunks
from tests.detection.proof import Proof
from tests.detection.scoring import Score


@pytest.fixture
def run_seeds(monkeypatch):
    """Return the list to which each seed that is run is added."""
    seeds = []

    def prove(chunk, processes, *, popped):
        assert not popped
        for seed in chunk:
            seeds.append(seed)
            yield Proof(
                1, int(seed % 3 == 0), {("LOCK_EXPIRED", "hook"): Score(correct=1, delays=[0.5])}, [f"seed {seed}"]
            )

    monkeypatch.setattr(chunks, "prove", prove)
    return seeds


def merged(folder, seeds):
    proof = Proof()
    for chunk in chunks.resume(folder, seeds):
        proof.add(chunk)
    return proof


def test_a_stopped_run_resumes_after_the_last_saved_chunk(tmp_path, run_seeds):
    next(chunks.resume(tmp_path, range(40)))
    assert run_seeds == list(range(16))
    whole = merged(tmp_path, range(40))
    assert run_seeds == list(range(40))
    assert (whole.seeds, whole.healthy, len(whole.false_alarms)) == (40, 14, 40)
    assert whole.scores["LOCK_EXPIRED", "hook"].correct == 40
    assert merged(tmp_path, range(40)) == whole
    assert len(run_seeds) == 40


def test_results_of_consumers_that_pop_are_others(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "prove", lambda chunk, _, *, popped: [Proof(1 + popped)])
    [(one, other)] = zip(chunks.resume(tmp_path, range(3)), chunks.resume(tmp_path, range(3), popped=True), strict=True)
    assert (one.seeds, other.seeds) == (1, 2)


def test_results_of_other_code_are_not_used(tmp_path, run_seeds, monkeypatch):
    merged(tmp_path, range(3))
    monkeypatch.setattr(chunks, "digest", lambda: "other")
    merged(tmp_path, range(3))
    assert run_seeds == [0, 1, 2, 0, 1, 2]
