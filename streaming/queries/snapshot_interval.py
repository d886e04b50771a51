"""The interval in which the job writes the state of every group."""

from checkpoints.manifest import read_manifest
from rebalance_model.observe.policy import Policy
from streaming.base.errors import UserError
from streaming.tables.reader import ReadModel


def snapshot_interval_ms(model: ReadModel) -> int:
    """Return the longest interval, in milliseconds, in which every group is written even if nothing changed.

    It is read from the policy that the job keeps with its checkpoints. If these are not beside the tables or cannot be
    read, the default policy is used.
    """
    policy = policy_of(model)
    own = (each for group in policy.group if isinstance(each := group.get("snapshot_interval"), int))
    return max([policy.snapshot_interval, *own])


def policy_of(model: ReadModel) -> Policy:
    """Return the policy that the job keeps with its checkpoints; the default one if it can't be read there."""
    try:
        kept = read_manifest(model.checkpoints)
    except (UserError, OSError):
        kept = None
    return kept.basis.policy if kept is not None else Policy()
