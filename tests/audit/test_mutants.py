"""A fault that is put into the program is found by the audit, as a difference of its kind."""

import random
from functools import cache, reduce
from itertools import islice
from pathlib import Path

import pytest

from rebalance_model.observe.effects import AnyRow, GroupSnapshot
from streaming.lab.demo import CAPTURE
from tests.audit.compare import compare, samples
from tests.audit.compare_states import compare_members, compare_with_events
from tests.audit.differences import Result
from tests.audit.job import run_loop
from tests.audit.mutants import ALONE, MUTANTS, Mutant, all_are_members, of_rules, served_here
from tests.audit.reading import Reading, read_all
from tests.audit.telemetry import read
from tests.audit.test_audit import BROKER_FAULTS, OF_RULES

BOTH = ("hook", "poll")
ALL = (*MUTANTS, *of_rules(sorted(OF_RULES)))


@cache
def reading(sources: tuple[str, ...]) -> Reading:
    return read_all(read(CAPTURE), sources)


def audited(root: Path, pairs: int, mutant: Mutant | None = None) -> Result:
    """Return what the audit compares of the tables that the program makes as it is now."""
    sources = mutant.sources if mutant is not None else BOTH
    raw = reading(sources)
    root.mkdir()
    run_loop(CAPTURE, root, sources, mutant.written if mutant is not None else lambda row: row)
    with served_here(root) as api:
        result = compare(raw, api, pairs, 1)
        if sources == BOTH:
            asked = list(islice(samples(raw, random.Random(1)), 6))
            compare_members(result, raw, {"REST": api.members}, asked)
            compare_with_events(result, raw, api.incidents())
    return result


def kinds_found(result: Result) -> set[str]:
    return {one.kind for one in result.differences}


def test_every_mutant_is_found_where_all_are_in_the_program(monkeypatch, tmp_path):
    def written(row: AnyRow) -> AnyRow:
        return reduce(lambda row, mutant: mutant.written(row), ALL, row)

    for mutant in ALL:
        mutant.put_in(monkeypatch)
    result = audited(tmp_path / "all", 24, Mutant("all", "", written=written))
    assert {mutant.found_by for mutant in ALL} - kinds_found(result) == set()


def test_that_every_client_is_a_member_is_found_before_the_state_is_there(monkeypatch, tmp_path):
    """Tables are appended one after another, and owners may be there first. Any later owner is a member."""
    run_loop(BROKER_FAULTS, tmp_path, BOTH, lambda row: None if isinstance(row, GroupSnapshot) else row)
    began = next(event.time for event in read(BROKER_FAULTS))
    with served_here(tmp_path) as api:
        right = api.members_of_all(began + 60_000)
        all_are_members(monkeypatch)
        wrong = api.members_of_all(began + 60_000)
    assert {group for _, group in right} == {"orders-group", "audit-group"}
    assert not any(right.values())
    assert all(wrong.values())


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutant", [*ALL, *ALONE], ids=lambda mutant: mutant.name)
def test_each_mutant_is_found_alone(monkeypatch, tmp_path, mutant: Mutant):
    mutant.put_in(monkeypatch)
    assert mutant.found_by in kinds_found(audited(tmp_path / "alone", 100, mutant))


@pytest.mark.prove
def test_nothing_is_found_without_a_mutant(tmp_path):
    assert audited(tmp_path / "none", 100).differences == []
