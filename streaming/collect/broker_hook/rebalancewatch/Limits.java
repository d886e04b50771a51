package rebalancewatch;

/**
 * How much the hook reads, keeps and writes: what clients send may cost them their own event, never the broker its
 * memory. streaming/base/LIMITS.md lists them as {@code HOOK_*}.
 */
final class Limits {
    /**
     * Bytes of a request's or an answer's body that a broker's hook reads; one with a larger body is counted as
     * unreadable, and reported for no group.
     */
    static final int BODY_BYTES = 4 << 20;
    /**
     * Nested objects and lists in such a body, in which clients nest five deep; a deeper one is counted as unreadable.
     */
    static final int BODY_DEPTH = 64;
    /**
     * Subscriptions, queues or client ids in such a body; one with more is counted as unreadable. An event has no room
     * for as many.
     */
    static final int BODY_PARTS = 50_000;
    /**
     * Characters of a number in such a body, of which an int64 has 20; a longer one makes its field unknown, and is
     * counted.
     */
    static final int NUMBER_CHARACTERS = 32;
    /**
     * Groups of one heartbeat that a broker's hook reports, each as an event with the client's id; the rest is counted
     * as lost.
     */
    static final int HEARTBEAT_GROUPS = 1_000;
    /** Bytes of an event; the decoder rejects a larger one (rebalance_model/observe/events/decoding.py). */
    static final int EVENT_BYTES = 1_000_000;
    /** Characters of a name; the decoder rejects a longer one (rebalance_model/entities.py, NAME_CHARACTERS_MAX). */
    static final int NAME_CHARACTERS = 1_000;
    /**
     * Characters of a group's name in a call to a broker (Validators.CHARACTER_MAX_LENGTH); a longer one is unreadable.
     */
    static final int GROUP_CHARACTERS = 255;
    /**
     * Groups whose sequence a hook keeps: 32 MB, if all have the longest name. Beyond it the least recently heard one
     * is forgotten, first one that only calls have named which the broker refused, or accepts for any group; when it is
     * heard again, its readers see a gap (`TELEMETRY_GAP`).
     */
    static final int GROUPS = 50_000;
    /** Sums of pulls, POPs and acks that a hook keeps for a second; beyond it all are reported early. */
    static final int SUMS = 50_000;
    /** Memory of these sums; beyond it all are reported early. */
    static final int SUM_BYTES = 24 << 20;
    /**
     * Ranges of acked offsets in such a sum, and in an event; with more it is reported early. A receipt in a BATCH_ACK
     * of more offsets (a broker's has at most 32) is left out, and counted.
     */
    static final int ACK_RANGES = 256;
    /** Offsets of one receipt in a BATCH_ACK of a proxy; a receipt with higher ones is left out, and counted. */
    static final int ACK_BITS = 4_096;
    /**
     * Bytes of a client's heartbeat that a proxy copies to the others, of which a real one has some 2,000; a larger one
     * is counted as unreadable.
     */
    static final int PROXY_HEARTBEAT_BYTES = 64 << 10;
    /** Characters of a topic whose newest offsets a hook keeps (TopicValidator.TOPIC_MAX_LENGTH). */
    static final int TOPIC_CHARACTERS = 127;
    /**
     * Topics and queues whose newest offset a hook keeps: 25 MB, if each topic has one queue and the longest name;
     * beyond it all are forgotten until the next send to each.
     */
    static final int NEWEST_QUEUES = 100_000;

    private Limits() {
    }
}
