"""The telemetry that is available to judge a group, and the rules that are suspended because theirs is missing."""

from functools import lru_cache

import msgspec

from rebalance_model.observe.group import proxied
from rebalance_model.observe.rules.registry import codes_needing
from rebalance_model.observe.rules.rule import Need
from rebalance_model.observe.state import GroupState
from rebalance_model.observe.step import GroupStep

_MISSING_BY_SHARING: dict[str, tuple[Need, ...]] = {
    "BROADCAST": ("OWNERS", "OFFSETS_OF_BROKER"),
    "POPPED": ("OWNERS", "PULLS"),
    "MIXED": (),
    "ACTIVE": ("OWNERS",),
    "PROXIED": ("OWNERS", "LISTS", "ANSWERS"),
    "UNLISTED": ("OWNERS", "LISTS", "MEMBERS", "ANSWERS"),
}
"""The needs that a group can't meet, by how its members share the queues (`Coverage.sharing`)."""

_INAPPLICABLE = {sharing: codes_needing(*needs) for sharing, needs in _MISSING_BY_SHARING.items()}
"""The codes of the rules that need one of these."""

_POPPED_OR_PROXIED = ("POPPED", "MIXED", "PROXIED", "UNLISTED")

UNREADABLE_SHOWN = 8
"""The number of things that can't be read and are named."""


class Coverage(msgspec.Struct, frozen=True):
    """The sources of a group, as the JSON beside its health shows them."""

    brokers: int
    hooks: int
    """The number of brokers with a hook that reports and ticks."""
    polls: bool
    """True if a collector is followed and ticks."""
    brokers_answering: int
    members: int
    members_answering: int
    offsets: bool
    """True if GET_CONSUME_STATS is answered."""
    silent_rules: tuple[str, ...] = ()
    """Codes of the suspended rules: their source is missing or they do not apply. It does not mean that all is well."""
    sharing: str = ""
    """The way in which members share the queues (`GroupFacts.division`). PROXIED is also a group whose clients only
    proxies list. UNLISTED: commits advance though no member is listed (its clients are behind a proxy in CLUSTER mode).
    Empty: unknown."""
    unreadable: tuple[str, ...] = ()
    """The parts of the last answers that can't be read, each with who sent it and the reason: at most
    `UNREADABLE_SHOWN`."""
    unreadable_more: int = 0
    """The number of further ones."""
    members_mute: int = 0
    """The number of members that are alive and do not report their queues, or unreadably."""
    routes_incomplete: tuple[str, ...] = ()
    """Topics whose route the collector has without queues that members have (`Route.beyond`), each with the brokers
    that it lacks: no owner of the topic's queues is expected. At most `UNREADABLE_SHOWN`."""
    inapplicable_rules: tuple[str, ...] = ()
    """Codes of the suspended rules that do not apply to the group, by how its members share the queues: none of their
    incidents is open."""


def coverage(step: GroupStep) -> str:
    """Return the sources of a group and its suspended rules as JSON."""
    state, polls, hooks = step.state, step.facts.is_polled, len(step.facts.hooks)
    clients = [state.clients[m] for m in state.members] if polls else []  # an invariant: each has one
    unreadable, incomplete = _unreadable(state), _incomplete(state) if polls else ()
    covered = Coverage(
        brokers=len(state.views),
        hooks=hooks,
        polls=polls,
        brokers_answering=sum([not view.failing for view in state.views.values()]) if polls else 0,
        members=len(state.members),
        members_answering=sum([c.answered > 0 and c.readable and not c.unanswered for c in clients]),
        offsets=polls and any(queue.commit_offset is not None for queue in state.queues.values()),
        sharing=sharing_seen(step),
        unreadable=unreadable[:UNREADABLE_SHOWN],
        unreadable_more=max(0, len(unreadable) - UNREADABLE_SHOWN),
        members_mute=sum([not c.readable for c in clients]),
        routes_incomplete=incomplete[:UNREADABLE_SHOWN],
    )
    return _encoded(covered, dead_letters=polls and bool(state.dead_letters), pops=state.pops is not None)


def inapplicable(step: GroupStep) -> frozenset[str]:
    """Return the codes of the rules that do not apply to the group, by how its members share the queues."""
    return _INAPPLICABLE.get(sharing_seen(step), frozenset())


def is_popped_or_proxied(step: GroupStep) -> bool:
    """Return whether consumers of the group pop, or are behind a proxy, and so do."""
    return sharing_seen(step) in _POPPED_OR_PROXIED


def sharing_seen(step: GroupStep) -> str:
    """Return how the members share the queues; those that proxies list count where no broker lists any."""
    if not step.state.members and proxied.is_listed(step.state):
        return "PROXIED"
    return "UNLISTED" if step.facts.is_consumed_unlisted else step.facts.division


def _incomplete(state: GroupState) -> tuple[str, ...]:
    """Return the topics whose route lacks queues, each with their brokers."""
    lacking = sorted([topic for topic, route in state.routes.items() if route.beyond])
    return tuple(
        f"{topic}: {', '.join(dict.fromkeys(mq.broker for mq in state.routes[topic].beyond))}" for topic in lacking
    )


def _unreadable(state: GroupState) -> tuple[str, ...]:
    """Return what can't be read of the last answers about the group, each with who sent it."""
    views = [view for view in state.views.values() if view.unreadable or view.unreadable_offsets]
    clients = [client for client in state.clients.values() if client.unreadable]
    if not (views or clients or state.proxies):
        return ()
    of_brokers = [
        f"{broker}: {text}"
        for broker, view in sorted(state.views.items())
        for text in (*view.unreadable, *view.unreadable_offsets)
    ]
    of_clients = [
        f"{_described(state, client_id)}: {text}"
        for client_id, client in sorted(state.clients.items())
        for text in client.unreadable
    ]
    of_proxies = [
        f"proxy {proxy}: {text}"
        for proxy, view in sorted(state.proxies.items())
        for text in (*view.unreadable, *((view.error or "no answer",) if not view.answers else ()))
    ]
    return (*of_brokers, *of_proxies, *of_clients)


def _described(state: GroupState, client_id: str) -> str:
    """Return a client's id with its language and version, as a broker lists them."""
    for view in state.views.values():
        for info in view.info.channel_info_table.values():
            if info.client_id == client_id and info.language:
                return f"{client_id} ({info.language} {info.version})"
    return client_id


@lru_cache(maxsize=1024)
def _encoded(covered: Coverage, *, dead_letters: bool, pops: bool) -> str:
    """Return the coverage as JSON, with the rules of which something is missing."""
    missing = list(_MISSING_BY_SHARING.get(covered.sharing, ()))
    if not pops and covered.sharing in _POPPED_OR_PROXIED:
        missing.append("POPS")
    if not covered.polls:
        missing.append("POLLS")
    if covered.members_mute and covered.members_mute == covered.members and not covered.hooks:
        missing += ["OWNERS", "ANSWERS", "ORDER"]  # no member reports its queues, or how it consumes them
    if not covered.offsets:
        missing.append("OFFSETS")
    if not dead_letters:
        missing.append("DEAD_LETTERS")
    if not covered.hooks:
        missing.append("HOOKS")
    if not (covered.hooks or covered.offsets):
        missing.append("COMMITS")
    silent = tuple(sorted(codes_needing(*missing)))
    never = tuple(sorted(_INAPPLICABLE.get(covered.sharing, ())))
    return msgspec.json.encode(msgspec.structs.replace(covered, silent_rules=silent, inapplicable_rules=never)).decode()
