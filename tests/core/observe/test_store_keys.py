"""Groups of clusters with odd names have states of their own in the store."""

from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import Tick, UpdateConsumerOffset
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy

START = 1_795_255_680_000
POLICY = Policy()


def rows_of(*clusters: str) -> list[object]:
    """Return the rows of a group "g" in each of these clusters, with a batch for each second."""
    groups, saved, rows = GroupsInMemory(), None, []
    for second in range(60):
        shard, time = Shard(saved, groups, POLICY), START + second * 1_000
        for cluster in clusters:
            own = {"cluster": cluster, "broker": "a", "source": "hook", "source_id": "hook-a@1", "seq": second + 1}
            commit = {"channel": "10.0.0.1:5", "topic": "Orders", "queue_id": 0, "offset": second}
            rows += shard.push(UpdateConsumerOffset(time=time, group="g", **own, **commit), time)
            rows += shard.push(Tick(time=time, **own), time)
        saved = shard.flush()
    rows += Shard(saved, groups, POLICY).finish()
    return sorted(rows, key=lambda row: type(row).__name__)  # quantities have no order with the other rows


def test_a_cluster_named_like_the_prefix_of_progress_has_its_own_states():
    """Its groups had the key under which the progress of another cluster's group is kept."""
    together = rows_of("lab", "progress lab")
    for cluster in ("lab", "progress lab"):
        alone = rows_of(cluster)
        assert alone
        assert [row for row in together if row.cluster == cluster] == alone
