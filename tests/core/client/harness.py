"""A model client whose brokers answer at once: that of the differential tests, with settings by name."""

from typing import Any

from rebalance_model.dialect import RELEASE_5, Dialect
from tests.differential.client_script import ModelClient, Queue, run

__all__ = ["Q0", "Q1", "client", "journal", "owner", "run"]

Q0: Queue = ("T", "a", 0)
Q1: Queue = ("T", "a", 1)


def client(dialect: Dialect = RELEASE_5, **config: Any) -> ModelClient:
    """One that is alone in its group."""
    return ModelClient({"orderly": False, **config}, dialect)


def owner(dialect: Dialect = RELEASE_5, **config: Any) -> ModelClient:
    """One that has two queues of a topic."""
    made = client(dialect, **config)
    made.subscribe("T")
    made.route("T", [Q0, Q1])
    assert made.rebalance()
    made.world.journal.clear()
    return made


def journal(made: ModelClient, *kinds: str) -> list[list[Any]]:
    """Return what was asked, sent and scheduled since the last time, in its true order; of some kinds or all."""
    entries, made.world.journal = made.world.journal, []
    return [entry for entry in entries if not kinds or entry[0] in kinds]
