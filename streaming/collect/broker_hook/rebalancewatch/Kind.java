package rebalancewatch;

/** The requests that make an event, by their RequestCode, and the header fields that are taken from them. */
enum Kind {
    PULL_MESSAGE(11, "consumerGroup", "topic", "queueId", "queueOffset", "sysFlag", "commitOffset"),
    QUERY_CONSUMER_OFFSET(14, "consumerGroup", "topic", "queueId"),
    UPDATE_CONSUMER_OFFSET(15, "consumerGroup", "topic", "queueId", "commitOffset"),
    /** GET_BROKER_RUNTIME_INFO: only a collector's carries two extra fields (streaming/collect/rpc.py). */
    CLOCK_SEEN(28, "rebalanceWatchCollector", "rebalanceWatchAsked"),
    HEART_BEAT(34),
    UNREGISTER_CLIENT(35, "consumerGroup", "clientID"),
    GET_CONSUMER_LIST_BY_GROUP(38, "consumerGroup"),
    LOCK_BATCH_MQ(41),
    UNLOCK_BATCH_MQ(42);

    /** LITE_PULL_MESSAGE of 5.x: a pull of a LitePullConsumer, with the same header. */
    private static final int LITE_PULL_MESSAGE = 361;

    final int code;
    final String[] fields;

    Kind(int code, String... fields) {
        this.code = code;
        this.fields = fields;
    }

    /** Returns the kind of a request code; null if it is not reported. */
    static Kind of(int code) {
        switch (code) {
            case 11:
            case LITE_PULL_MESSAGE:
                return PULL_MESSAGE;
            case 14:
                return QUERY_CONSUMER_OFFSET;
            case 15:
                return UPDATE_CONSUMER_OFFSET;
            case 28:
                return CLOCK_SEEN;
            case 34:
                return HEART_BEAT;
            case 35:
                return UNREGISTER_CLIENT;
            case 38:
                return GET_CONSUMER_LIST_BY_GROUP;
            case 41:
                return LOCK_BATCH_MQ;
            case 42:
                return UNLOCK_BATCH_MQ;
            default:
                return null;
        }
    }

    /** Whether the event contains the time at which the broker began to process the request. */
    boolean timed() {
        return this == GET_CONSUMER_LIST_BY_GROUP || this == CLOCK_SEEN;
    }

    /**
     * Whether calls of this kind are ordered by the time at which the broker began to process them: it writes a pull's
     * answer before it calls the hook, so the client's next pull may reach the hook first.
     */
    boolean overtaken() {
        return this == PULL_MESSAGE;
    }

    /** Whether the event contains the newest offset of its queue, whose topic and id are the second and third field. */
    boolean isOfQueue() {
        return this == PULL_MESSAGE || this == UPDATE_CONSUMER_OFFSET;
    }

    /** Whether the bodies are needed; a pull's answer would be messages. */
    boolean hasBodies() {
        return this == HEART_BEAT || this == GET_CONSUMER_LIST_BY_GROUP || this == LOCK_BATCH_MQ
            || this == UNLOCK_BATCH_MQ;
    }
}
