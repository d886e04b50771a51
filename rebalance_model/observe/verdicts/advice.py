"""What each finding means, and the first thing to do: one line each."""

_GHOST_CONNECTION = (
    (
        "A client stands twice in the broker's list, once on a dead connection: the strategy counts it twice, and "
        "no client takes the share of the second place."
    ),
    (
        "Wait until the broker drops the dead connection (120 to 130 s after its last heartbeat, see the "
        "evidence). Restarting the client ends it sooner only if its process still holds that connection open."
    ),
)
_ADVICE: dict[tuple[str, str], tuple[str, str]] = {
    ("LOCK_EXPIRED", ""): (
        (
            "The owner has not renewed its queue lock: it refuses to consume, and past the broker's limit any "
            "member may take the queue."
        ),
        "Look whether the owner's process is paused, out of CPU, or cut off from the broker's master.",
    ),
    ("PULL_EXPIRED", ""): (
        (
            "The owner has not pulled from this queue for longer than pullMaxIdleTime: its messages wait, and the "
            "client will throw the queue away and start it anew."
        ),
        "Check the owner's pullInterval, and whether its pull thread is blocked.",
    ),
    ("BROKER_UNREACHABLE", ""): (
        "The broker answers no question: what it has, nobody consumes, and nothing is known of it.",
        "Look whether its process runs, and whether the collector's host reaches its port.",
    ),
    ("BROKER_UNREACHABLE", "HOOK_SILENT"): (
        "The broker answers no question and its hook has fallen silent: it is most likely down.",
        "Look whether its process runs; its queues are consumed again when it is back.",
    ),
    ("TELEMETRY_GAP", "HOOK_SILENT"): (
        "The broker's hook tells nothing any more: what only it tells is not watched.",
        "Look whether the broker runs, and the shipper beside it: `rebalance-watch collect spool`.",
    ),
    ("TELEMETRY_GAP", "LATE"): (
        "The source is far behind the others and not waited for; checks that need it are suspended.",
        "Check its host and its way to the log; then `rebalance-watch rebuild` fills the hole in the history.",
    ),
    ("TELEMETRY_GAP", "BUFFER_FULL"): (
        "More events waited for a telemetry source that is behind than can be kept in memory, so it is not waited for.",
        "Check the host of this source and its way to the log.",
    ),
    ("TELEMETRY_GAP", "HOOK_LOST"): (
        "Events of the broker's hook are missing: what rests on them may be wrong for half a minute.",
        "Look for a full disk or a full spool on the broker's host; the evidence has the hook's own reason.",
    ),
    ("TELEMETRY_GAP", "POLL_SILENT"): (
        "The collector tells nothing any more: what only polls tell is not watched.",
        "Look whether `rebalance-watch collect poll` runs and reaches the log.",
    ),
    ("TELEMETRY_GAP", "POLL_LOST"): (
        "Answers to the collector are missing: what rests on them may be late by a round.",
        "Look into the collector's own log for what it could not send.",
    ),
    ("CLOCK_SKEW", "AHEAD"): (
        "The client's clock is ahead of the collector's: its stamps can't be read beside others'.",
        "Check NTP on the client's host.",
    ),
    ("CLOCK_SKEW", "BEHIND"): (
        "The client's clock is behind the collector's: the broker takes its new subscription for an old one.",
        "Check NTP on the client's host, then restart the client.",
    ),
    ("CLOCK_SKEW", "BROKER_AHEAD"): (
        "The broker's clock is ahead of the collector's: messages expire early, and delayed ones come early.",
        "Check NTP on the broker's host.",
    ),
    ("CLOCK_SKEW", "BROKER_BEHIND"): (
        "The broker's clock is behind the collector's: delayed messages come late, and its stamps mislead.",
        "Check NTP on the broker's host.",
    ),
    ("ORDERED_QUEUE_STUCK", "OWNER_GONE_LOCK_HELD"): (
        "The owner vanished without unlocking: its heirs are refused until the broker's lock expires.",
        "Wait for the lock to expire (60 s by default); if it stays, look for heirs that do not ask.",
    ),
    ("ORDERED_QUEUE_STUCK", "UNASSIGNED"): (
        "No member has the queue: its messages wait for nobody.",
        "Check that members run and subscribe to the topic, and that they agree on strategy and client ids.",
    ),
    ("ORDERED_QUEUE_STUCK", "GHOST_CONNECTION"): _GHOST_CONNECTION,
    ("ORDERED_QUEUE_STUCK", "UNLOCK_PENDING"): (
        "The queue was taken from its owner, whose listener still runs and keeps it from being unlocked.",
        "Take a thread dump of the owner: its listener has not returned.",
    ),
    ("ORDERED_QUEUE_STUCK", "ZOMBIE"): (
        "The owner keeps the queue as dropped: it neither consumes it nor gives it up.",
        "Restart the owner; the client heals itself only when the queue is pull-expired (120 s).",
    ),
    ("ORDERED_QUEUE_STUCK", "OWNER_UNRESPONSIVE"): (
        "The owner answers nothing, but the broker still counts it as a member: the queue stays with it.",
        "Look whether the owner's process is paused or starved; end it to free the queue at once.",
    ),
    ("ORDERED_QUEUE_STUCK", "NOT_LOCKED"): (
        "The owner does not hold the queue's lock and so does not consume it.",
        "See who holds the lock: the broker's lock.log names the client that refuses it.",
    ),
    ("ORDERED_QUEUE_STUCK", "LOCK_EXPIRED"): (
        "The owner's lock is older than lockMaxLiveTime: it refuses to consume.",
        "Look whether the owner reaches the broker's master, where locks are renewed every 20 s.",
    ),
    ("ORDERED_QUEUE_STUCK", "LISTENER_HUNG"): (
        "The owner's listener has taken a message and not returned.",
        "Take a thread dump of the owner (mqadmin consumerStatus -s) and look at ConsumeMessageThread.",
    ),
    ("ORDERED_QUEUE_STUCK", "SUSPEND_LOOP"): (
        "The owner's listener is given the same message again and again and does not accept it: a poison message.",
        "Read the message at the commit offset; fix the listener, or set maxReconsumeTimes so that it goes to the DLQ.",
    ),
    ("ORDERED_QUEUE_STUCK", "NOT_PULLING"): (
        "The owner has the lock and nothing to consume, and it does not pull.",
        "Check the owner's pullInterval and flow control; restart it if its pull request is lost.",
    ),
    ("ORDERED_QUEUE_STUCK", "UNDETERMINED"): (
        "Messages wait and the commit does not advance; telemetry does not show why.",
        "Look at the owner's log and thread dump.",
    ),
    ("LOCK_ORPHANED", ""): (
        "The holder of the queue's lock is gone without unlocking, and the heir is refused: nobody consumes the queue.",
        "Wait for the lock to expire (60 s from its last renewal); end consumers by shutdown(), not by SIGKILL.",
    ),
    ("LOCK_ORPHANED", "INFERRED"): (
        "The former owner is gone, its lock lives on by all that is known, and the heir has not got the queue.",
        "Wait for the lock to expire (60 s from its last renewal); end consumers by shutdown(), not by SIGKILL.",
    ),
    ("LOCK_CONTENDED", "REFUSED"): (
        "A living member keeps the queue's lock, and another one asks for it again and again in vain.",
        "Compare what both take for the members (client ids, subscriptions): one of them works from another list.",
    ),
    ("LOCK_CONTENDED", "TO_AND_FRO"): (
        "Two members take the queue's lock from each other in turn.",
        "Compare both clients' strategy, client id and subscriptions: they do not agree who should have the queue.",
    ),
    ("BROKER_LOCKS_LOST", ""): (
        "The broker has restarted without its queue locks: until the owners renew theirs, whoever asks first gets one.",
        "Wait for the owners' next renewal (every 20 s); if it stays, see whether they reach the broker.",
    ),
    ("BROKER_LOCKS_LOST", "TWO_OWNERS"): (
        "After the broker's restart another client took a queue whose former owner still believes in its lock.",
        "Expect messages of this queue out of order for up to 30 s; lockInStrictMode keeps locks over a restart.",
    ),
    ("STALE_HEARTBEAT", ""): (
        "The member has sent no heartbeat for two intervals; the broker drops it after 120 s and tells nobody.",
        "Look whether its process is paused, starved, or cut off from this broker.",
    ),
    ("CLIENT_ID_COLLISION", ""): (
        "Two processes share this client id: both take the same share of the queues, and others go without owner.",
        "Give each process an instanceName of its own (in containers, host network and pid 1 make them equal).",
    ),
    ("OFFSET_REGRESSION", "REREAD"): (
        "The queue's new owner began where the former one had committed before it was told to stop.",
        "Nothing to do: at most one persist interval (5 s) is consumed twice.",
    ),
    ("OFFSET_REGRESSION", "STALE_OWNER"): (
        "A client that has lost the queue committed its old position over that of the owner.",
        "Look for a long pause of that client (garbage collection, a stopped VM); consumers must tolerate repeats.",
    ),
    ("OFFSET_REGRESSION", "OPERATOR_RESET"): (
        "The owner itself went back, as after a reset of the group's offset.",
        "Ask who ran mqadmin resetOffsetByTime; if nobody did, look at the owner's log for a corrected offset.",
    ),
    ("OFFSET_REGRESSION", "RESET_TO_MIN"): (
        "The queue is consumed from its beginning again: a reset to the earliest, or an offset out of the log's range.",
        "Look at the owner's log for OFFSET_ILLEGAL; check the topic's retention against the lag.",
    ),
    ("OFFSET_REGRESSION", "POLLED"): (
        "The broker's stored offset is below what was committed before: what lies between is consumed again.",
        "See whether somebody reset the offset, or a stale client commits; the broker's hook would tell who and when.",
    ),
    ("OFFSET_REGRESSION", "FAILOVER"): (
        "The broker came back with older offsets than it had before.",
        "Check how the broker went down, and whether a slave with older offsets took over.",
    ),
    ("DUPLICATE_CONSUMPTION", ""): (
        "Messages that were consumed and committed before are being consumed again.",
        "Nothing, if consumers are idempotent; the rebalance named in the evidence is what moved the queue.",
    ),
    ("ORDERED_QUEUE_STUCK", "LISTENER_BLOCKED"): (
        "The owner has pulled messages and keeps its lock, but its commit stands: a hung listener or a poison message.",
        "Take a thread dump of the owner (mqadmin consumerStatus -s); read the message at the commit offset.",
    ),
    ("QUEUE_UNASSIGNED", "GHOST_CONNECTION"): _GHOST_CONNECTION,
    ("QUEUE_UNASSIGNED", ""): (
        "Every member has answered, and none has this queue: its messages wait for nobody.",
        "Compare the members' subscriptions, client ids and strategy with the expected owner, and restart that one.",
    ),
    ("QUEUE_DOUBLE_OWNED", ""): (
        "Two members hold the queue at once: its messages are consumed twice.",
        "Compare both members' strategy, client id and member list; restart the one that should not have it.",
    ),
    ("ASSIGNMENT_MISMATCH", ""): (
        "The queue stays with a member that should not have it, by the strategy on the members that the broker names.",
        "Look for `rebalanced result changed` in the owner's log: it works from other members or other queues.",
    ),
    ("STRATEGY_MISMATCH", ""): (
        "The members divide the queues by different strategies: some queues have two owners, and some none.",
        "Deploy one allocateMessageQueueStrategy to all members.",
    ),
    ("MIXED_CONSUME_MODE", ""): (
        "Some members consume in order and some concurrently: no queue's order is kept, and retries go both ways.",
        "Give every member the same kind of listener, or split the group in two.",
    ),
    ("ZOMBIE_QUEUE", ""): (
        "The member should have the queue and keeps it as dropped: it neither consumes it nor takes it anew.",
        "Take a thread dump of the member and restart it; it heals itself only when the queue is pull-expired (120 s).",
    ),
    ("UNLOCK_PENDING", ""): (
        "The member has lost the queue and can't unlock it: its listener still works on a message.",
        "Take a thread dump of the member: its listener has not returned, and the heir waits.",
    ),
    ("CLIENT_UNRESPONSIVE", ""): (
        "The member answers nothing, though its broker does; its queues stay with it until the broker drops it.",
        "Look whether its process is paused, starved or cut off; end it to free its queues at once.",
    ),
    ("CONSUMER_IDLE", ""): (
        "There are more members than queues: some have nothing to consume.",
        "Add queues to the topic, or run fewer members; as a standby it is harmless.",
    ),
    ("ASSIGNMENT_SKEW", ""): (
        "One member has more than twice as many queues as the members have on average.",
        "See the strategy: AVG gives every topic's remainder to the first client ids, and a hash ring is uneven.",
    ),
    ("ROUTE_VIEW_SPLIT", ""): (
        "The topic's queues have changed, and some members still divide the former ones.",
        "Check that the members named reach the name server, which they ask every 30 s.",
    ),
    ("REBALANCE_STALLED", ""): (
        "The strategy's answer has changed, and no queue has moved since: a rebalance thread hangs.",
        "Take a thread dump of the owner named and look at RebalanceService; check its RPCs to the broker.",
    ),
    ("QUEUE_STALLED", "UNASSIGNED"): (
        "No member has the queue: its messages wait for nobody.",
        "Check that members run and subscribe to the topic, and that they agree on strategy and client ids.",
    ),
    ("QUEUE_STALLED", "GHOST_CONNECTION"): _GHOST_CONNECTION,
    ("QUEUE_STALLED", "OWNER_UNRESPONSIVE"): (
        "The owner answers nothing, but the broker still counts it as a member: the queue stays with it.",
        "Look whether the owner's process is paused or starved; end it to free the queue at once.",
    ),
    ("QUEUE_STALLED", "LISTENER_HUNG"): (
        "The message at the commit offset is in a listener that has not returned; the commit waits for it.",
        "Take a thread dump of the owner (mqadmin consumerStatus -s) and look at ConsumeMessageThread.",
    ),
    ("QUEUE_STALLED", "LISTENER_BLOCKED"): (
        "The owner has pulled messages, but its commit stands: the message at the commit offset is still in work.",
        "Take a thread dump of the owner (mqadmin consumerStatus -s) and look at ConsumeMessageThread.",
    ),
    ("QUEUE_STALLED", "UNDETERMINED"): (
        "Messages wait and the commit does not advance; telemetry does not show why.",
        "Look at the owner's log and thread dump.",
    ),
    ("REBALANCE_STORM", "TOPIC_SET_FLIP"): (
        (
            "Members subscribe different topics: each heartbeat undoes the other's, and all of them rebalance at "
            "every flip."
        ),
        "Give every member of the group the same subscriptions; one that needs others belongs to a group of its own.",
    ),
    ("REBALANCE_STORM", "RECONNECT_CHURN"): (
        (
            "The same client ids come back again and again on new connections, without having said goodbye; the group "
            "rebalances each time."
        ),
        (
            "Look for what cuts the connections (network, proxy, idle time-outs), or kills the processes: memory "
            "limits, liveness probes."
        ),
    ),
    ("REBALANCE_STORM", "MEMBER_FLAPPING"): (
        "Clients join and leave again and again, and the group rebalances each time.",
        "Look why these clients restart: their logs, their deployment's probes, an autoscaler that swings.",
    ),
    ("REBALANCE_STORM", "ROUTE_FLAPPING"): (
        "The topic's queues, or a broker with its own, come and go; every client rebalances each time.",
        "Look at the broker's registration with the name servers, and who changes the topic's configuration.",
    ),
    ("REBALANCE_STORM", "CONFIG_ON_RETRY_TOPIC"): (
        (
            "The strategy CONFIG gives the client the same queues for its retry topic, where they are none: its "
            "rebalance is never done, and starts anew every second."
        ),
        "Use another strategy, or one of your own that returns CONFIG's queues for their own topic only.",
    ),
    ("REBALANCE_STORM", "ENDLESS_REBALANCE"): (
        "The client's rebalance is never done: it starts anew every second, though no lock is kept from it.",
        "Read the client's rebalance log; a strategy such as CONFIG that names queues of other topics does it.",
    ),
    ("SUBSCRIPTION_INCONSISTENT", "TOPIC_SET"): (
        (
            "Members subscribe different topics: the broker's table flips with every heartbeat, and queues go to "
            "clients that do not read them."
        ),
        "Give every member of the group the same subscriptions; one that needs others belongs to a group of its own.",
    ),
    ("SUBSCRIPTION_INCONSISTENT", "EXPRESSION"): (
        (
            "Members filter one topic differently: the broker filters for all by one of them, so messages are lost "
            "to the others."
        ),
        "Give every member of the group the same expression; one that needs another belongs to a group of its own.",
    ),
    ("CID_VIEW_SPLIT", ""): (
        (
            "Brokers list different members: clients that ask different ones share out the queues differently, and "
            "some get two owners or none."
        ),
        "Look why the missing client's heartbeats do not reach that broker: network, or its list of brokers.",
    ),
    ("LAG_GROWTH", "PRODUCED_FASTER"): (
        "Lag has grown through the whole window: more is produced than usual, and consumption does not follow.",
        "See whether the load is meant; add consumers up to the number of queues, or threads.",
    ),
    ("LAG_GROWTH", "CONSUMED_SLOWER"): (
        "Lag has grown through the whole window: less is consumed than usual.",
        "Look at the owner: a slow listener, a slow database behind it, flow control.",
    ),
    ("LAG_GROWTH", "NOBODY_OWNS"): (
        "Lag has grown through the whole window: nobody has the queue.",
        "See the group's assignment: which member should have it, and why it has not.",
    ),
    ("LAG_GROWTH", "REBALANCE_PAUSE"): (
        "Lag has grown through the whole window, in which the queue changes hands.",
        "See what keeps the rebalance from its end: locks that are held, members that join and leave.",
    ),
    ("LAG_GROWTH", "UNDETERMINED"): (
        "Lag has grown through the whole window; the queue's usual pace is not known yet.",
        "Compare what is produced with what the owner consumes.",
    ),
    ("NO_ACTIVE_CLIENTS_WITH_LAG", ""): (
        "Messages wait for the group, which had members until lately and has none.",
        "Start its consumers; see why the last of them went.",
    ),
}


def advice(code: str, sub_cause: str) -> tuple[str, str]:
    """The explanation and the first step for a finding."""
    return _ADVICE.get((code, sub_cause)) or _ADVICE[code, ""]
