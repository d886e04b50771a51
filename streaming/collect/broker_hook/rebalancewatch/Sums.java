package rebalancewatch;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The open sums of the most frequent calls, by their group and queue: pulls, POPs and acks. */
final class Sums {
    private final Map<List<Object>, List<Sum>> sums = new LinkedHashMap<>();
    private int size;
    private long bytes;

    /** Whether all sums are to be closed early. */
    boolean isFull() {
        return size >= Limits.SUMS || bytes >= Limits.SUM_BYTES;
    }

    /**
     * Adds a call to the open sum of such calls.
     *
     * @param one the sum of this call alone
     * @return the sums that had to be closed for it
     */
    List<Sum> add(Sum one) {
        List<Sum> open = sums.computeIfAbsent(key(one.group, one.topic, one.queueId), missing -> new ArrayList<>(1));
        List<Sum> closed = Collections.emptyList();
        for (int i = 0; i < open.size(); i++) {
            Sum known = open.get(i);
            if (known.isOfSuchCalls(one)) {
                if (known.hasRoomFor(one)) {
                    bytes -= known.bytes();
                    known.add(one);
                    bytes += known.bytes();
                    return closed;
                }
                open.remove(i);
                closed = Collections.singletonList(known);
                size--;
                bytes -= known.bytes();
                break;
            }
        }
        open.add(one);
        size++;
        bytes += one.bytes();
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
