"""How long what a group told of itself may stand before the group tells it again."""

from checkpoints.generation import read_manifest
from rebalance_model.observe.policy import Policy
from streaming.errors import UserError
from streaming.read_model.reader import ReadModel


def retold_ms(model: ReadModel) -> int:
    """Within what time every group tells its whole state anew, though nothing changed.

    By the policy of the job that writes the tables, which it keeps with its checkpoints. Where these are not beside the
    tables, or can't be read, by the policy as it is shipped.
    """
    try:
        kept = read_manifest(model.checkpoints)
    except (UserError, OSError):
        kept = None
    policy = kept.basis.policy if kept is not None else Policy()
    own = (int(group["snapshot_interval"]) for group in policy.group if "snapshot_interval" in group)
    return max([policy.snapshot_interval, *own])
