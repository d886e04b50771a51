"""Count what a cluster's incident affects, when a message about it is created."""

from collections.abc import Callable
from typing import TypeAlias

import structlog

from rebalance_model.observe.effects import IncidentTransition
from streaming.base.place import Place
from streaming.queries.incident_detail import reach_of
from streaming.queries.results import IncidentReach
from streaming.tables import ReadModel

Ask: TypeAlias = Callable[[IncidentTransition], IncidentReach | None]
"""Returns what a transition's incident affects; None if it is about one group, or unknown."""


def nothing(transition: IncidentTransition) -> IncidentReach | None:
    """Return None: the reach is unknown."""
    del transition
    return None


def asking(tables: Place) -> Ask:
    """Return a function that queries the tables; if that fails, messages are sent without the counts."""

    def ask(transition: IncidentTransition) -> IncidentReach | None:
        if transition.group or not transition.cluster:
            return None
        try:
            with ReadModel(tables) as model:
                return reach_of(model, transition.cluster, transition.subject, transition.opened_at)
        except Exception as error:  # noqa: BLE001  whatever it is, the alert is more important
            structlog.get_logger().warning("cannot determine what an incident affects", reason=str(error))
            return None

    return ask
