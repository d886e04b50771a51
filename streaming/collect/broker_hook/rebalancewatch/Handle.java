package rebalancewatch;

/** The receipt of a popped message, as its client repeats it in every call about the message (ExtraInfoUtil). */
final class Handle {
    /** Times up to this far ahead of ours are those of the broker's own clock, which is not read at the same instant. */
    private static final long AHEAD_MAX = 60_000;
    /** KeyBuilder.POP_ORDER_REVIVE_QUEUE: the message was popped in order. */
    private static final long ORDER_REVIVE_QUEUE = 999;
    /** startOffset popTime invisibleTime reviveQid retry broker; the queue's id and offset may follow. */
    private static final int FIELDS_MIN = 6;

    /** When the message was popped, by the broker's clock, epoch ms. */
    final long popTime;
    /** For how long it is then given to no other client, ms. */
    final long invisible;
    final boolean order;

    /**
     * Checks the values.
     *
     * @param now the time of the call
     */
    Handle(long popTime, long invisible, long reviveQueue, long now) {
        this.popTime = Telemetry.within(1, now + AHEAD_MAX, popTime);
        this.invisible = Telemetry.within(0, Telemetry.TIME_MAX, invisible);
        this.order = reviveQueue == ORDER_REVIVE_QUEUE;
    }

    /** Reads the field extraInfo of a call. */
    static Handle of(String extraInfo, long now) {
        String[] fields = extraInfo == null ? new String[0] : extraInfo.split(" ");
        if (fields.length < FIELDS_MIN) {
            throw new IllegalArgumentException("an extraInfo of " + fields.length + " fields");
        }
        return new Handle(Long.parseLong(fields[1]), Long.parseLong(fields[2]), Long.parseLong(fields[3]), now);
    }
}
