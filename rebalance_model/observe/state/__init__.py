"""The state of a consumer group, and of its cluster, between events: one entity per file."""

from rebalance_model.observe.state.broker import (
    BrokerView,
    ChannelBeats,
    Heartbeats,
    HookView,
    RebalanceLoop,
    RefusedHeartbeats,
)
from rebalance_model.observe.state.client import UNANSWERED_POLLS, ClientView, PopTarget, ProcessQueueView
from rebalance_model.observe.state.cluster import ClusterBroker, ClusterState, Reach, ReviveBacklog
from rebalance_model.observe.state.codec import StateVersionError, check_version, decode_group, encode_group
from rebalance_model.observe.state.group import STATE_VERSION, GroupState, InvariantError, LastGroupRow, Rounds
from rebalance_model.observe.state.hook_queue_view import (
    ConcurrentPuller,
    FormerHolder,
    HookQueueView,
    PullError,
    Refusals,
    Regression,
    Reread,
)
from rebalance_model.observe.state.incident import HeldCause, IncidentKey, IncidentState, Pending
from rebalance_model.observe.state.pops import LastMinute, PolledReturns, Popper, Pops, ProxiedClient, RequestModes
from rebalance_model.observe.state.proxy import ListedClient, ProxyView
from rebalance_model.observe.state.queue import (
    Ended,
    EndedBy,
    FallenBack,
    LagTrend,
    LastQueueRow,
    NewestFall,
    QueueState,
    Route,
    RouteSplit,
    Skipped,
    Unassigned,
)
from rebalance_model.observe.state.rebalance import Cause, Episode, Move
from rebalance_model.observe.state.source import ClockSet, Loss, Sequence, Silence

__all__ = [
    "STATE_VERSION",
    "UNANSWERED_POLLS",
    "BrokerView",
    "Cause",
    "ChannelBeats",
    "ClientView",
    "ClockSet",
    "ClusterBroker",
    "ClusterState",
    "ConcurrentPuller",
    "Ended",
    "EndedBy",
    "Episode",
    "FallenBack",
    "FormerHolder",
    "GroupState",
    "Heartbeats",
    "HeldCause",
    "HookQueueView",
    "HookView",
    "IncidentKey",
    "IncidentState",
    "InvariantError",
    "LagTrend",
    "LastGroupRow",
    "LastMinute",
    "LastQueueRow",
    "ListedClient",
    "Loss",
    "Move",
    "NewestFall",
    "Pending",
    "PolledReturns",
    "PopTarget",
    "Popper",
    "Pops",
    "ProcessQueueView",
    "ProxiedClient",
    "ProxyView",
    "PullError",
    "QueueState",
    "Reach",
    "RebalanceLoop",
    "Refusals",
    "RefusedHeartbeats",
    "Regression",
    "RequestModes",
    "Reread",
    "ReviveBacklog",
    "Rounds",
    "Route",
    "RouteSplit",
    "Sequence",
    "Silence",
    "Skipped",
    "StateVersionError",
    "Unassigned",
    "check_version",
    "decode_group",
    "encode_group",
]
