"""What each finding means, and the first thing to do: one line each."""

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
    ("ORDERED_QUEUE_STUCK", "OWNER_GONE_LOCK_HELD"): (
        "The owner vanished without unlocking: its heirs are refused until the broker's lock expires.",
        "Wait for the lock to expire (60 s by default); if it stays, look for heirs that do not ask.",
    ),
    ("ORDERED_QUEUE_STUCK", "UNASSIGNED"): (
        "No member has the queue: its messages wait for nobody.",
        "Check that members run and subscribe to the topic, and that they agree on strategy and client ids.",
    ),
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
}


def advice(code: str, sub_cause: str) -> tuple[str, str]:
    """The explanation and the first step for a finding."""
    return _ADVICE.get((code, sub_cause)) or _ADVICE[code, ""]
