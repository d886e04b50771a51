"""Query what an open incident means for messages: how many wait, and for how long."""

from collections.abc import Mapping

from rebalance_model.entities import INT64_MAX
from streaming.base.language import gettext, ngettext
from streaming.base.statements import statements_of, with_parts
from streaming.queries import labels
from streaming.queries.ownership import OWNED_QUEUES
from streaming.queries.present import present
from streaming.queries.results import Impact, Incident
from streaming.tables.reader import ReadModel

_IMPACT = with_parts(statements_of(__name__)["impact"], owned_queues=OWNED_QUEUES)


def impact_of(model: ReadModel, incident: Incident) -> Impact | None:
    """Return the messages that wait in the queues of an incident; None if it is resolved or no queue is known.

    Its queues are the one that it is about, or those that its client has, or those of its broker, or of its group.
    """
    if incident.resolved_at is not None:
        return None
    everything = {
        "cluster": incident.cluster, "group": incident.group, "topic": incident.topic, "broker": incident.broker,
        "queue_id": incident.queue_id, "client": None, "instant": INT64_MAX, "now": present(model, None),
    }  # fmt: skip
    if incident.queue_id is not None:
        return _impact(model, everything)
    # A client that has no queue, a collector and a rebalance have no queues of their own: those of the group count.
    narrower = ({"client": incident.subject}, {"broker": incident.subject}) if incident.subject else ()
    found = (_impact(model, everything | {"broker": None} | part) for part in (*narrower, {}))
    return next((one for one in found if one is not None), None)


def _impact(model: ReadModel, parameters: Mapping[str, object]) -> Impact | None:
    [row] = model.rows(_IMPACT, parameters)
    return Impact(**row) if row["queues"] else None


def waiting_text(impact: Impact) -> str:
    """Say how many messages wait, and for how long; what is unknown is said to be."""
    if impact.lag is None and not impact.waiting_ms:
        return gettext("It is unknown whether messages wait.")
    if impact.lag == 0 and not impact.lag_unknown and not impact.waiting_ms:
        return gettext("No message waits.")
    if impact.lag is None:
        said = gettext("Messages wait; how many is unknown")
    else:
        number = labels.total(impact.lag, impact.lag_unknown, at_least=impact.lag_is_at_least)
        said = ngettext("{number} message waits", "{number} messages wait", impact.lag, number=number)
    if not impact.waiting_ms:
        return gettext("{what}.", what=said)
    duration = labels.duration(impact.waiting_ms)
    if impact.waiting_is_at_most:
        return gettext("{what}, the oldest for {duration} or less.", what=said, duration=duration)
    return gettext("{what}, the oldest for {duration}.", what=said, duration=duration)


def unknown_text(impact: Impact) -> str:
    """Say of how many queues the lag is unknown; empty: of none."""
    if not impact.lag_unknown or impact.queues == 1:
        return ""
    return gettext(
        "The lag of {n} of {queues} queues is unknown.", n=f"{impact.lag_unknown:,}", queues=f"{impact.queues:,}"
    )
