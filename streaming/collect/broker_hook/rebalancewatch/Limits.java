package rebalancewatch;

/**
 * How much the hook reads, keeps and writes: what clients send may cost them their own event, never the broker its
 * memory. streaming/base/limits.py has the same values as {@code HOOK_*} or under the same name, with what happens
 * beyond each; a test compares them.
 */
final class Limits {
    /** Bytes of the body of a request or an answer. */
    static final int BODY_BYTES = 4 << 20;
    /** Nested objects and lists in a body; clients nest five deep. */
    static final int BODY_DEPTH = 64;
    /** Subscriptions, queues or client ids in a body; an event has no room for as many. */
    static final int BODY_PARTS = 50_000;
    /** Characters of a number in a body; an int64 has 20. */
    static final int NUMBER_CHARACTERS = 32;
    /** Groups of one heartbeat: each makes an event that repeats the client's id. */
    static final int HEARTBEAT_GROUPS = 1_000;
    /** Bytes of an event; the decoder rejects a larger one (rebalance_model/observe/events/decoding.py). */
    static final int EVENT_BYTES = 1_000_000;
    /** Characters of a name; the decoder rejects a longer one (rebalance_model/entities.py, NAME_CHARACTERS_MAX). */
    static final int NAME_CHARACTERS = 1_000;
    /** Characters of a group's name: RocketMQ's own limit (Validators.CHARACTER_MAX_LENGTH). */
    static final int GROUP_CHARACTERS = 255;
    /** Groups whose sequence is kept: 32 MB, if all have the longest name. */
    static final int GROUPS = 50_000;
    /** Sums of pulls, POPs and acks. */
    static final int SUMS = 50_000;
    /** Memory of these sums, bytes. */
    static final int SUM_BYTES = 24 << 20;
    /** Ranges of offsets in a sum of acks; the decoder rejects more (rebalance_model/observe/events/hook_events.py). */
    static final int ACK_RANGES = 256;
    /** Bits of a receipt of a BATCH_ACK, one an offset: of at most 32 messages, among others that its group skips. */
    static final int ACK_BITS = 4_096;
    /** Bytes of a client's heartbeat that a proxy copies; a real one has some 2,000. */
    static final int PROXY_HEARTBEAT_BYTES = 64 << 10;
    /** Characters of a topic: RocketMQ's own limit (TopicValidator.TOPIC_MAX_LENGTH). */
    static final int TOPIC_CHARACTERS = 127;
    /** Topics and queues whose newest offset is kept: 25 MB, if each topic has one queue and the longest name. */
    static final int NEWEST_QUEUES = 100_000;

    private Limits() {
    }
}
