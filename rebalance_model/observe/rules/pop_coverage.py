"""Since when hooks have shown every call of a group's members: silence of a member proves nothing otherwise."""

from rebalance_model.observe.step import GroupStep


def covered_since(step: GroupStep) -> int | None:
    """Return since when all hooks of its brokers report without a gap; None: one is silent, or none is there."""
    hooks = [step.live_hook(view) for view in step.state.views.values() if view.hook is not None]
    since = [hook.covered_since for hook in hooks if hook is not None]
    return max(since) if since and len(since) == len(hooks) else None


def has_all_hooks(step: GroupStep) -> bool:
    """Return whether every broker of the cluster has a hook that reports."""
    brokers = step.cluster.brokers.values()
    return bool(brokers) and all(one.hook and step.cluster.keeps_up(one.hook) for one in brokers)


def has_no_silent_hook(step: GroupStep) -> bool:
    """Return whether each hook that the cluster's brokers have reports: nothing is missing of what was seen before."""
    return all(step.cluster.keeps_up(one.hook) for one in step.cluster.brokers.values() if one.hook)
