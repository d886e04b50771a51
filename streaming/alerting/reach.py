"""How much a cluster's incident touches, asked when a message about it is made."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import structlog

from rebalance_model.observe.effects import IncidentTransition
from streaming.queries.answers import Reach
from streaming.queries.incident_story import reach_of
from streaming.read_model import ReadModel

Ask: TypeAlias = Callable[[IncidentTransition], Reach | None]
"""Gives what a transition's incident touches; None where it is about one group, or that is not known."""


def nothing(transition: IncidentTransition) -> Reach | None:
    """Know of nothing."""
    del transition
    return None


def asking(tables: Path) -> Ask:
    """Ask the tables; a message goes out also if they don't answer."""

    def ask(transition: IncidentTransition) -> Reach | None:
        if transition.group or not transition.cluster:
            return None
        try:
            with ReadModel(tables) as model:
                return reach_of(model, transition.cluster, transition.subject, transition.opened_at)
        except Exception as error:  # noqa: BLE001  whatever it is, the alert is more important
            structlog.get_logger().warning("what an incident touches is not known", reason=str(error))
            return None

    return ask
