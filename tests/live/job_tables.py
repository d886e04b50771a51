"""What the job's tables say about a real cluster's group, while the job writes them."""

from streaming.base.errors import UserError
from streaming.tables.reader import ReadModel
from tests.support.tables import selected


def owners(tables, group) -> dict[tuple[str, int], str]:
    rows = read(tables, "current_owners", group)
    return {(row["broker"], row["queue_id"]): row["client_id"] for row in rows if row["topic"] == group.topic}


def incidents(tables, group, queue, *, only_open=False) -> list[dict[str, object]]:
    """Those of one queue: within so short a `stuck_after` a busy machine lets others stand, too."""
    wanted = queue.topic, queue.broker, queue.queue_id
    found = read(tables, "open_incidents" if only_open else "incidents", group)
    return [one for one in found if (one["topic"], one["broker"], one["queue_id"]) == wanted]


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
