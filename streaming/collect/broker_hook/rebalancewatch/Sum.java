package rebalancewatch;

import java.util.Objects;

/** The calls of one kind, group, queue, channel and response code within a second; at first, one call. */
abstract class Sum {
    /** Memory of a sum beside its names, in bytes. */
    private static final int BYTES = 300;
    /** The maximum period of a sum, ms. */
    private static final long SPAN_MAX = 1_000;

    final String group;
    final String topic;
    final long queueId;
    final String channel;
    final Integer code;
    final long firstTime;
    long lastTime;
    long count = 1;

    Sum(Call call, String group, String topic, long queueId) {
        this.group = group;
        this.topic = topic;
        this.queueId = queueId;
        this.channel = Names.notLong(call.channel); // here, because it is written later, among others of a second
        this.code = call.code;
        this.firstTime = call.time;
        this.lastTime = call.time;
    }

    int bytes() {
        return BYTES + 2 * (group.length() + topic.length() + channel.length());
    }

    /** Whether the other one, of the same group and queue, is of calls that are added to these. */
    boolean isOfSuchCalls(Sum other) {
        return getClass() == other.getClass() && Objects.equals(channel, other.channel)
            && Objects.equals(code, other.code);
    }

    boolean hasRoomFor(Sum later) {
        return later.firstTime - firstTime <= SPAN_MAX;
    }

    void add(Sum later) {
        lastTime = later.lastTime;
        count += later.count;
    }

    abstract Kind kind();

    /** Writes the fields that are of this kind alone. */
    abstract void write(Json json);
}
