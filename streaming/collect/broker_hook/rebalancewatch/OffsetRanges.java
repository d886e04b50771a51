package rebalancewatch;

import java.util.Arrays;

/** Offsets, as at most {@link Limits#ACK_RANGES} ranges of those that follow each other, in order. */
final class OffsetRanges {
    /** First and last offset of each range, both included. */
    private long[] bounds;
    /** Twice the number of ranges. */
    private int size;

    /** Begins with one range. */
    OffsetRanges(long first, long last) {
        bounds = new long[] {first, last};
        size = 2;
    }

    /** Memory in bytes. */
    int bytes() {
        return bounds.length * Long.BYTES;
    }

    boolean hasRoomFor(OffsetRanges others) {
        return size + others.size <= 2 * Limits.ACK_RANGES;
    }

    void add(OffsetRanges others) {
        for (int i = 0; i < others.size; i += 2) {
            add(others.bounds[i], others.bounds[i + 1]);
        }
    }

    /** Adds offsets; the caller has checked that there is room. */
    void add(long first, long last) {
        int from = size; // of the ranges that meet these offsets, the first, and the one after the last
        while (from > 0 && bounds[from - 1] >= first - 1) {
            from -= 2;
        }
        int to = from;
        while (to < size && bounds[to] <= last + 1) {
            to += 2;
        }
        if (from == to) {
            insert(from, first, last);
            return;
        }
        bounds[from] = Math.min(bounds[from], first);
        bounds[from + 1] = Math.max(bounds[to - 1], last);
        System.arraycopy(bounds, to, bounds, from + 2, size - to);
        size -= to - from - 2;
    }

    private void insert(int at, long first, long last) {
        if (size == bounds.length) {
            bounds = Arrays.copyOf(bounds, 2 * size);
        }
        System.arraycopy(bounds, at, bounds, at + 2, size - at);
        bounds[at] = first;
        bounds[at + 1] = last;
        size += 2;
    }

    void write(Json json, String name) {
        json.openList(name);
        for (int i = 0; i < size; i += 2) {
            json.pair(bounds[i], bounds[i + 1]);
        }
        json.closeList();
    }
}
