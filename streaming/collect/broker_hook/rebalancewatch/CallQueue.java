package rebalancewatch;

import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * The calls that the RPC threads pass to the writer, bounded by number and by memory. Its lock fixes the order of the
 * calls and their time, by the clock of this source ({@link #now}); the sequence numbers follow that order ({@link
 * Telemetry} explains why they are not assigned here). Calls beyond the bound are counted, and their place in the order
 * is known: no call is accepted until the writer has taken the batch.
 */
final class CallQueue {
    /** The calls since the last batch, and after them those that were lost. */
    static final class Batch {
        final List<Call> calls;
        /** The time when the batch was taken, by the clock as it was set until then. */
        final long until;
        /** By how much the clock was then set, ms: every later call has the time {@code until + step} or a later one. */
        final long step;
        final int lost;
        final long lostFrom;
        private final long bytes;

        private Batch(List<Call> calls, long bytes, long until, long step, int lost, long lostFrom) {
            this.calls = calls;
            this.bytes = bytes;
            this.until = until;
            this.step = step;
            this.lost = lost;
            this.lostFrom = lostFrom;
        }
    }

    /** The host's clock and ours are the same within this, ms; a larger difference is followed and reported. */
    private static final long STEP_MIN = 250;
    /** Two clocks are compared only if they were read within this time, ms. */
    private static final long READ_MAX = 25;
    /** So often both clocks are read at the start; the two readings that are closest count. */
    private static final int COMPARED = 5;

    /** By how much the host's clock was ahead of {@link System#nanoTime} at the start, ns. */
    private final long aheadNanos = aheadNanos();
    private final int capacity;
    private final long bytesMax;
    private List<Call> waiting = new ArrayList<>();
    private long waitingBytes;
    /** Memory of the batch that the writer processes, bytes. */
    private int takenCalls;
    private long takenBytes;
    private int lost;
    private long lostFrom;
    private boolean closed;
    /** By how much the clock was set since the start, ms. */
    private long setBy;

    CallQueue(int capacity, long bytesMax) {
        this.capacity = capacity;
        this.bytesMax = bytesMax;
    }

    /** Returns the time, epoch ms: monotonic from the host's time at the start, and set only by {@link #take}. */
    synchronized long now() {
        return setBy + TimeUnit.NANOSECONDS.toMillis(System.nanoTime() + aheadNanos);
    }

    /**
     * Compares the clocks to the precision that the JVM has: by whole milliseconds our time would be up to one behind,
     * and calls would come before what led to them. Read again if the thread was held up between the two.
     */
    private static long aheadNanos() {
        long ahead = 0;
        long apart = Long.MAX_VALUE;
        for (int i = 0; i < COMPARED; i++) {
            long before = System.nanoTime();
            Instant host = Instant.now();
            long after = System.nanoTime();
            if (after - before < apart) {
                apart = after - before;
                ahead = TimeUnit.SECONDS.toNanos(host.getEpochSecond()) + host.getNano() - after;
            }
        }
        return ahead;
    }

    /** Sets the clock to the host's if that was set; returns by how much, ms, or 0. */
    private long followClock() {
        long before = now();
        long host = System.currentTimeMillis();
        long after = now();
        if (after - before > READ_MAX || Math.abs(host - after) < STEP_MIN) {
            return 0;
        }
        setBy += host - after;
        return host - after;
    }

    /** Stamps a call and keeps it, or counts it as lost. The most frequent calls may use only half of the room. */
    synchronized void offer(Call call) {
        call.time = now();
        if (call.begun != 0) {
            call.begunAt = call.time - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - call.begun);
        }
        boolean half = call.kind.mayUseHalf();
        boolean fits = fits(call, half ? 2 : 1);
        closed |= !fits && !half;
        if (fits && !closed) {
            waiting.add(call);
            waitingBytes += call.bytes;
        } else {
            lost();
        }
    }

    private boolean fits(Call call, int share) {
        return waiting.size() + takenCalls < capacity / share
            && waitingBytes + takenBytes + call.bytes <= bytesMax / share;
    }

    /** Counts a call that could not be kept. */
    synchronized void lost() {
        if (lost++ == 0) {
            lostFrom = now();
        }
    }

    /**
     * Takes all waiting calls; their memory counts as held until {@link #release}. If the host's clock was set, later
     * calls are by the clock as it is now.
     */
    synchronized Batch take() {
        long until = now();
        Batch batch = new Batch(waiting, waitingBytes, until, followClock(), lost, lostFrom);
        waiting = new ArrayList<>();
        takenCalls += batch.calls.size();
        takenBytes += batch.bytes;
        waitingBytes = 0;
        lost = 0;
        closed = false;
        return batch;
    }

    synchronized void release(Batch batch) {
        takenCalls -= batch.calls.size();
        takenBytes -= batch.bytes;
    }
}
