"""All rules in the order of judgement, which is also the order of their rows; checked at import.

To add a rule, add a file beside this one and a line in `RULES`.
"""

from collections.abc import Iterable
from functools import cache
from typing import TypeAlias

from rebalance_model.observe.rules import (
    assignment_mismatch,
    assignment_skew,
    broker_locks_lost,
    broker_name_shared,
    broker_unreachable,
    cid_view_split,
    client_id_collision,
    client_unresponsive,
    clock_skew,
    consumer_idle,
    delayed_stuck,
    duplicate_consumption,
    lag_growth,
    lifecycle,
    lock_contended,
    lock_expired,
    lock_orphaned,
    messages_dead_lettered,
    messages_expiring,
    messages_retried,
    messages_stranded,
    mixed_consume_mode,
    mixed_members,
    mixed_request_mode,
    no_active_clients_with_lag,
    offset_regression,
    ordered_queue_stuck,
    pop_held_long,
    pop_not_acking,
    pop_returned,
    pop_stopped,
    proxy_client_gone,
    proxy_unreachable,
    pull_expired,
    pull_refused,
    queue_double_owned,
    queue_stalled,
    queue_unassigned,
    rebalance_stalled,
    rebalance_storm,
    revive_behind,
    route_view_split,
    stale_heartbeat,
    state_lost,
    strategy_mismatch,
    subscription_inconsistent,
    telemetry_gap,
    topic_not_found,
    unlock_pending,
    zombie_queue,
)
from rebalance_model.observe.rules.rule import (
    Advice,
    BrokerRule,
    ClientRule,
    ClusterRule,
    GroupRule,
    Need,
    QueueRule,
    RebalanceRule,
    Unit,
)
from rebalance_model.observe.step import ALL, What

AnyRule: TypeAlias = QueueRule | ClientRule | BrokerRule | RebalanceRule | GroupRule | ClusterRule

RULES: tuple[AnyRule, ...] = (
    lock_orphaned.RULE,
    lock_contended.RULE,
    lock_expired.RULE,
    pull_refused.RULE,
    pull_expired.RULE,
    offset_regression.RULE,
    ordered_queue_stuck.RULE,
    pop_held_long.RULE,
    queue_unassigned.RULE,
    queue_double_owned.RULE,
    assignment_mismatch.RULE,
    zombie_queue.RULE,
    unlock_pending.RULE,
    queue_stalled.RULE,
    lag_growth.RULE,
    stale_heartbeat.RULE,
    client_id_collision.RULE,
    client_unresponsive.RULE,
    proxy_client_gone.RULE,
    pop_not_acking.RULE,
    pop_stopped.RULE,
    clock_skew.RULE,
    telemetry_gap.OF_HOOK,
    broker_locks_lost.RULE,
    clock_skew.OF_BROKER,
    duplicate_consumption.RULE,
    telemetry_gap.OF_POLLS,
    state_lost.RULE,
    mixed_members.RULE,
    rebalance_storm.RULE,
    no_active_clients_with_lag.RULE,
    subscription_inconsistent.RULE,
    cid_view_split.RULE,
    strategy_mismatch.RULE,
    mixed_consume_mode.RULE,
    mixed_request_mode.RULE,
    pop_returned.RULE,
    route_view_split.RULE,
    rebalance_stalled.RULE,
    consumer_idle.RULE,
    assignment_skew.RULE,
    messages_retried.RULE,
    messages_dead_lettered.RULE,
    messages_expiring.RULE,
    messages_stranded.RULE,
    topic_not_found.RULE,
    broker_unreachable.RULE,
    broker_name_shared.RULE,
    proxy_unreachable.RULE,
    revive_behind.RULE,
    delayed_stuck.RULE,
    telemetry_gap.OF_SOURCE,
    clock_skew.OF_SOURCE_CLOCK,
)
QUEUE_RULES = tuple(rule for rule in RULES if isinstance(rule, QueueRule))
POPPED_QUEUE_RULES = tuple(rule for rule in QUEUE_RULES if rule.of_popped)
PULLED_QUEUE_RULES = tuple(rule for rule in QUEUE_RULES if not rule.of_popped)
CLIENT_RULES = tuple(rule for rule in RULES if isinstance(rule, ClientRule))
BROKER_RULES = tuple(rule for rule in RULES if isinstance(rule, BrokerRule))
REBALANCE_RULES = tuple(rule for rule in RULES if isinstance(rule, RebalanceRule))
GROUP_RULES = tuple(rule for rule in RULES if isinstance(rule, GroupRule))
CLUSTER_RULES = tuple(rule for rule in RULES if isinstance(rule, ClusterRule))
CODES = frozenset(rule.code for rule in RULES)

_UNIT_OF_SUFFIX: dict[str, Unit] = {
    "_ms": "ms",
    "_at": "epoch_ms",
    "_since": "epoch_ms",
    "_per_hour": "per_hour",
    "_offset": "offset",
}
"""Units by the ending of an evidence field's name: readers of the tables rely on it."""


def check(rules: Iterable[AnyRule]) -> None:
    """Check that the rules are consistent with themselves and each other; raise ValueError with the first violation.

    Codes are unique for each kind of subject, and rules of one code declare the same needs. Every code in absorbed_by
    is a rule's. Each sub-cause has its advice, and each field of evidence a unit that its name does not contradict.
    """
    rules = tuple(rules)
    needs: dict[str, tuple[Need, ...]] = {}
    units: dict[tuple[str, str], Unit] = {}
    pairs: set[tuple[str, str]] = set()
    for rule in rules:
        if (rule.code, rule.about) in pairs:
            raise ValueError(f"{rule.code}: two rules about a {rule.about} have this code")
        pairs.add((rule.code, rule.about))
        if needs.setdefault(rule.code, rule.needs) != rule.needs:
            raise ValueError(f"{rule.code}: rules of one code must declare the same needs")
        for name, unit in rule.units.items():
            if units.setdefault((rule.code, name), unit) != unit:
                raise ValueError(f"{rule.code}: its rules declare different units for the evidence field {name}")
    for rule in rules:
        unknown = [code for code in rule.absorbed_by if code not in needs]
        if unknown:
            raise ValueError(f"{rule.code}: absorbed_by names {unknown[0]}, which is no rule")
        if isinstance(rule, QueueRule | ClientRule) and not rule.concerns:
            raise ValueError(f"{rule.code}: concerns must name what makes a {rule.about} worth judging")
        _check_advice(rule)
        _check_units(rule)


def _check_advice(rule: AnyRule) -> None:
    unlike = sorted(set(rule.sub_causes) ^ rule.advice.keys())
    if unlike or not rule.sub_causes:
        name = unlike[0] if unlike else ""
        raise ValueError(f"{rule.code}: sub-cause {name!r} must be both in sub_causes and in advice")
    for sub_cause, advice in rule.advice.items():
        if not (advice.what and advice.first_step):
            raise ValueError(f"{rule.code}: the advice for sub-cause {sub_cause!r} is empty")


def _check_units(rule: AnyRule) -> None:
    if not rule.units:
        raise ValueError(f"{rule.code}: units declares no evidence field")
    for name, unit in rule.units.items():
        named = _unit_by_name(name)
        if named not in (None, unit):
            raise ValueError(f"{rule.code}: evidence field {name} is declared as {unit}, but its name implies {named}")


def codes_needing(*needs: Need) -> frozenset[str]:
    """Return the codes of the rules that need any of these kinds of telemetry."""
    return frozenset(rule.code for rule in RULES if not set(needs).isdisjoint(rule.needs))


@cache
def queue_rules(flags: int) -> tuple[QueueRule, ...]:
    """Return the rules about queues with any of these concerns, in the order of judgement."""
    return tuple(rule for rule in QUEUE_RULES if rule.concerns & flags)


@cache
def group_rules(changes: frozenset[What]) -> tuple[GroupRule, ...]:
    """Return the rules about groups that follow any of these changes, in the order of judgement."""
    if changes & ALL:
        return GROUP_RULES
    return tuple(rule for rule in GROUP_RULES if not changes.isdisjoint(rule.follows))


@cache
def client_rules(flags: int) -> tuple[ClientRule, ...]:
    """Return the rules about clients with any of these concerns, in the order of judgement."""
    return tuple(rule for rule in CLIENT_RULES if rule.concerns & flags)


def advice_for(code: str, sub_cause: str) -> Advice | None:
    """Return the advice for an incident; None if no rule of this release has such a sub-cause."""
    return next((rule.advice[sub_cause] for rule in RULES if rule.code == code and sub_cause in rule.advice), None)


def title_of(code: str) -> str | None:
    """Return what is wrong by an incident of this code, see `Rule.title`; None if no rule of this release has it."""
    return next((rule.title for rule in RULES if rule.code == code), None)


def unit_of(code: str, field: str) -> Unit | None:
    """Return the unit of a field of an incident's evidence; None if it is unknown, as in a row of another release."""
    units = _UNITS.get(code, {})
    found = units.get(field) or _unit_by_name(field)
    if found is not None:
        return found
    several = (unit for name, unit in units.items() if name.endswith("*") and field.startswith(name[:-1]))
    return next(several, None)


def _unit_by_name(field: str) -> Unit | None:
    return next((unit for suffix, unit in _UNIT_OF_SUFFIX.items() if field.endswith(suffix)), None)


check(RULES)
_UNITS: dict[str, dict[str, Unit]] = {code: dict(lifecycle.UNITS) for code in CODES}
for _rule in RULES:
    _UNITS[_rule.code].update(_rule.units)
