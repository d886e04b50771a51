package rebalancewatch;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** Pulls, summed for each (group, queue, channel, code). */
final class PullSums {
    /** Memory of a sum beside its names, in bytes. */
    private static final int BYTES = 300;
    /** The maximum period of a sum, ms. */
    private static final long SPAN_MAX = 1_000;

    static final class Sum {
        final String group;
        final String topic;
        final long queueId;
        final String channel;
        final Integer code;
        final long firstTime;
        long lastTime;
        /** The offsets of the pulls that the broker began to process first, and last. */
        long firstOffset;
        long lastOffset;
        long commitOffset;
        private long firstBegun;
        private long lastBegun;
        long count;
        long brokerOffset;

        private Sum(String group, String topic, long queueId, Call call, long offset) {
            this.group = group;
            this.topic = topic;
            this.queueId = queueId;
            this.channel = call.channel;
            this.code = call.code;
            this.firstTime = call.time;
            this.firstOffset = offset;
            this.firstBegun = call.begun;
            this.lastBegun = call.begun;
        }

        private int bytes() {
            return BYTES + 2 * (group.length() + topic.length() + channel.length());
        }

        private boolean takes(Call call) {
            return Objects.equals(channel, call.channel) && Objects.equals(code, call.code);
        }
    }

    private final Map<List<Object>, List<Sum>> sums = new LinkedHashMap<>();
    private int size;
    private long bytes;

    /** Whether all sums are to be closed early. */
    boolean isFull() {
        return size >= Limits.PULL_SUMS || bytes >= Limits.PULL_SUM_BYTES;
    }

    /**
     * Adds a pull.
     *
     * @param commitOffset -1 if the pull commits nothing
     * @param brokerOffset the queue's newest offset, -1 if unknown
     * @return the sums that had to be closed for it
     */
    List<Sum> add(Call call, String group, String topic, long queueId, long offset, long commitOffset,
        long brokerOffset) {
        List<Sum> open = sums.computeIfAbsent(key(group, topic, queueId), missing -> new ArrayList<>(1));
        List<Sum> closed = Collections.emptyList();
        Sum sum = null;
        for (Iterator<Sum> each = open.iterator(); each.hasNext(); ) {
            Sum known = each.next();
            if (known.takes(call)) {
                sum = known;
                if (call.time - known.firstTime > SPAN_MAX) {
                    each.remove();
                    closed = Collections.singletonList(known);
                    sum = null;
                    size--;
                    bytes -= known.bytes();
                }
                break;
            }
        }
        if (sum == null) {
            sum = new Sum(group, topic, queueId, call, offset);
            open.add(sum);
            size++;
            bytes += sum.bytes();
        }
        sum.lastTime = call.time;
        sum.count++;
        if (call.begun - sum.firstBegun < 0) {
            sum.firstBegun = call.begun;
            sum.firstOffset = offset;
        }
        if (call.begun - sum.lastBegun >= 0) {
            sum.lastBegun = call.begun;
            sum.lastOffset = offset;
            sum.commitOffset = commitOffset;
            sum.brokerOffset = brokerOffset;
        }
        return closed;
    }

    /** Closes the sums of a group's queue. */
    List<Sum> close(String group, String topic, long queueId) {
        List<Sum> closed = sums.remove(key(group, topic, queueId));
        if (closed == null) {
            return Collections.emptyList();
        }
        size -= closed.size();
        for (Sum sum : closed) {
            bytes -= sum.bytes();
        }
        return closed;
    }

    List<Sum> closeAll() {
        List<Sum> closed = new ArrayList<>();
        sums.values().forEach(closed::addAll);
        sums.clear();
        size = 0;
        bytes = 0;
        return closed;
    }

    private static List<Object> key(String group, String topic, long queueId) {
        return Arrays.asList(group, topic, queueId);
    }
}
