"""The rules of detection.md: one small pure predicate a file or family, by what they are about."""

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.rules import lock_expired, ordered_queue_stuck, pull_expired
from rebalance_model.observe.verdict import Rule

QUEUE_RULES: tuple[Rule[MessageQueue], ...] = (lock_expired.RULE, pull_expired.RULE, ordered_queue_stuck.RULE)
CLIENT_RULES: tuple[Rule[str], ...] = ()
BROKER_RULES: tuple[Rule[str], ...] = ()
GROUP_RULES: tuple[Rule[str], ...] = ()
