package rebalancewatch;

/** Pulls. First and last are in the order in which the broker began to process them. */
final class PullSum extends Sum {
    private long firstOffset;
    private long lastOffset;
    private long commitOffset;
    private long firstBegun;
    private long lastBegun;
    private long brokerOffset;

    /**
     * Begins with one pull.
     *
     * @param commitOffset -1 if the pull commits nothing
     * @param brokerOffset the queue's newest offset, -1 if unknown
     */
    PullSum(Call call, String group, String topic, long queueId, long offset, long commitOffset, long brokerOffset) {
        super(call, group, topic, queueId);
        this.firstOffset = offset;
        this.lastOffset = offset;
        this.commitOffset = commitOffset;
        this.firstBegun = call.begun;
        this.lastBegun = call.begun;
        this.brokerOffset = brokerOffset;
    }

    @Override
    void add(Sum later) {
        super.add(later);
        PullSum pull = (PullSum) later;
        if (pull.firstBegun - firstBegun < 0) {
            firstBegun = pull.firstBegun;
            firstOffset = pull.firstOffset;
        }
        if (pull.lastBegun - lastBegun >= 0) {
            lastBegun = pull.lastBegun;
            lastOffset = pull.lastOffset;
            commitOffset = pull.commitOffset;
            brokerOffset = pull.brokerOffset;
        }
    }

    @Override
    Kind kind() {
        return Kind.PULL_MESSAGE;
    }

    @Override
    void write(Json json) {
        json.field("first_offset", firstOffset).field("last_offset", lastOffset).field("commit_offset", commitOffset)
            .field("count", count);
        if (brokerOffset >= 0) {
            json.field("broker_offset", brokerOffset);
        }
    }
}
