"""Tables of the job about a real cluster's group, while the job writes them."""

from streaming.base.errors import UserError
from streaming.tables.reader import ReadModel
from tests.support.tables import selected


def owners(tables, group) -> dict[tuple[str, int], str]:
    rows = read(tables, "current_owners", group)
    return {(row["broker"], row["queue_id"]): row["client_id"] for row in rows if row["topic"] == group.topic}


def incidents(tables, group, queue) -> list[dict[str, object]]:
    """Those of one queue: within so short a `stuck_after` a busy machine lets others stand, too."""
    wanted = queue.topic, queue.broker, queue.queue_id
    found = read(tables, "incidents", group)
    return [one for one in found if (one["topic"], one["broker"], one["queue_id"]) == wanted]


def stuck(tables, group, poisoned=None) -> list[dict[str, object]]:
    """The ordered queues that are stuck, or an incident of the poisoned one that shows what the poison does."""
    stuck_queues = [one for one in read(tables, "open_incidents", group) if one["code"] == "ORDERED_QUEUE_STUCK"]
    if poisoned is None:
        return stuck_queues
    queue = poisoned.queue.topic, poisoned.queue.broker, poisoned.queue.queue_id
    shown = [one for one in stuck_queues if (one["topic"], one["broker"], one["queue_id"]) == queue]
    return [one for one in shown if (one["sub_cause"], one["client_id"]) == ("SUSPEND_LOOP", poisoned.client_id)]


def read(tables, view, group) -> list[dict[str, object]]:
    try:
        with ReadModel(tables) as model:
            return selected(model, view, group.group)
    except UserError:  # the job has not made the tables yet
        return []


def check_archive(tables) -> None:
    """Check that rows were kept and judged, and none was rejected."""
    with ReadModel(tables) as model:
        [counts] = model.rows(
            "SELECT (SELECT count(*) FROM telemetry) AS kept, (SELECT count(*) FROM telemetry_rejected) AS refused,"
            " (SELECT count(*) FROM quality_results) AS judged"
        )
    assert counts["kept"] > 0
    assert counts["refused"] == 0
    assert counts["judged"] > 0
