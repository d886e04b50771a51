package rebalancewatch;

/** POPs: requests for messages of any client's share. */
final class PopSum extends Sum {
    private long invisible;
    private long poll;
    private boolean order;
    private boolean filtered;

    /**
     * Begins with one POP.
     *
     * @param queueId -1: all queues of the broker
     * @param invisible for how long a message is given to no other client, ms
     * @param poll for how long the POP may wait, ms
     * @param filtered whether it has an expression
     */
    PopSum(Call call, String group, String topic, long queueId, long invisible, long poll, boolean order,
        boolean filtered) {
        super(call, group, topic, queueId);
        this.invisible = invisible;
        this.poll = poll;
        this.order = order;
        this.filtered = filtered;
    }

    @Override
    void add(Sum later) {
        super.add(later);
        PopSum pop = (PopSum) later;
        invisible = pop.invisible;
        poll = pop.poll;
        order = pop.order;
        filtered |= pop.filtered;
    }

    @Override
    Kind kind() {
        return Kind.POP_MESSAGE;
    }

    @Override
    void write(Json json) {
        json.field("count", count).field("invisible_ms", invisible).field("poll_ms", poll).field("order", order)
            .field("filtered", filtered);
    }
}
