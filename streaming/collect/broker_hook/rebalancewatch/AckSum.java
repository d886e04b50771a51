package rebalancewatch;

/** Acks of popped messages, of those in order and of others apart. */
final class AckSum extends Sum {
    private final boolean order;
    private final OffsetRanges offsets;
    private long popTimeMin;
    private long popTimeMax;
    private long invisible;

    /** Begins with the acks of one call. */
    AckSum(Call call, String group, String topic, long queueId, Handle handle, OffsetRanges offsets) {
        super(call, group, topic, queueId);
        this.order = handle.order;
        this.offsets = offsets;
        this.popTimeMin = handle.popTime;
        this.popTimeMax = handle.popTime;
        this.invisible = handle.invisible;
    }

    @Override
    int bytes() {
        return super.bytes() + offsets.bytes();
    }

    @Override
    boolean isOfSuchCalls(Sum other) {
        return super.isOfSuchCalls(other) && order == ((AckSum) other).order;
    }

    @Override
    boolean hasRoomFor(Sum later) {
        return super.hasRoomFor(later) && offsets.hasRoomFor(((AckSum) later).offsets);
    }

    @Override
    void add(Sum later) {
        super.add(later);
        AckSum ack = (AckSum) later;
        offsets.add(ack.offsets);
        popTimeMin = Math.min(popTimeMin, ack.popTimeMin);
        popTimeMax = Math.max(popTimeMax, ack.popTimeMax);
        invisible = ack.invisible;
    }

    @Override
    Kind kind() {
        return Kind.ACK_MESSAGE;
    }

    @Override
    void write(Json json) {
        json.field("order", order);
        offsets.write(json, "ranges");
        json.field("pop_time_min", popTimeMin).field("pop_time_max", popTimeMax).field("invisible_ms", invisible);
    }
}
