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
    UNLOCK_BATCH_MQ(42),
    /** A tool lets the broker move the offsets of a group; RESET_CONSUMER_CLIENT_OFFSET (220) goes to the clients. */
    INVOKE_BROKER_TO_RESET_OFFSET(222, "group", "topic", "queueId"),
    POP_MESSAGE(200050, "consumerGroup", "topic", "queueId", "invisibleTime", "pollTime", "order", "exp"),
    ACK_MESSAGE(200051, "consumerGroup", "topic", "queueId", "offset", "extraInfo", "liteTopic"),
    CHANGE_MESSAGE_INVISIBLETIME(200053, "consumerGroup", "topic", "queueId", "offset", "extraInfo", "liteTopic",
        "invisibleTime"),
    /** Its events are those of ACK_MESSAGE. */
    BATCH_ACK_MESSAGE(200151),
    /** SEND_MESSAGE_V2 to the topic in which proxies copy the heartbeats of their clients; no other send is one. */
    PROXY_HEART_BEAT(310);

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
            case 222:
                return INVOKE_BROKER_TO_RESET_OFFSET;
            case 200050:
                return POP_MESSAGE;
            case 200051:
                return ACK_MESSAGE;
            case 200053:
                return CHANGE_MESSAGE_INVISIBLETIME;
            case 200151:
                return BATCH_ACK_MESSAGE;
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

    /** Whether calls of this kind may use only half of the room: they are frequent, or anybody may send many. */
    boolean mayUseHalf() {
        return this == PULL_MESSAGE || this == POP_MESSAGE || acceptsAnyGroup();
    }

    /** Whether the broker accepts calls of this kind for any group, also for one that does not exist. */
    boolean acceptsAnyGroup() {
        return this == ACK_MESSAGE || this == CHANGE_MESSAGE_INVISIBLETIME || this == BATCH_ACK_MESSAGE
            || this == PROXY_HEART_BEAT;
    }

    /** Whether the bodies are needed; a pull's answer would be messages. */
    boolean hasBodies() {
        return this == HEART_BEAT || this == GET_CONSUMER_LIST_BY_GROUP || this == LOCK_BATCH_MQ
            || this == UNLOCK_BATCH_MQ || this == BATCH_ACK_MESSAGE || this == PROXY_HEART_BEAT;
    }

    /** Bytes of a body; a larger one is not read. */
    int bodyBytesMax() {
        return this == PROXY_HEART_BEAT ? Limits.PROXY_HEARTBEAT_BYTES : Limits.BODY_BYTES;
    }
}
