package rebalancewatch;

import java.util.ArrayList;
import java.util.List;

/**
 * The calls that the RPC threads pass to the writer, bounded by number and by memory. Its lock fixes the order of the
 * calls and their time, which never falls; the sequence numbers follow that order ({@link Telemetry} explains why they
 * are not assigned here). Calls beyond the bound are counted, and their place in the order is known: no call is
 * accepted until the writer has taken the batch.
 */
final class CallQueue {
    /** The calls since the last batch, and after them those that were lost. */
    static final class Batch {
        final List<Call> calls;
        /** The queue's clock when the batch was taken: every later call has this time or a later one. */
        final long until;
        final int lost;
        final long lostFrom;
        private final long bytes;

        private Batch(List<Call> calls, long bytes, long until, int lost, long lostFrom) {
            this.calls = calls;
            this.bytes = bytes;
            this.until = until;
            this.lost = lost;
            this.lostFrom = lostFrom;
        }
    }

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
    private long last;

    CallQueue(int capacity, long bytesMax) {
        this.capacity = capacity;
        this.bytesMax = bytesMax;
    }

    /** Returns the clock of this source, epoch ms: the system's, but it never falls. */
    synchronized long now() {
        last = Math.max(last, System.currentTimeMillis());
        return last;
    }

    /** Stamps a call and keeps it, or counts it as lost. Pulls, the most frequent, may use only half of the room. */
    synchronized void offer(Call call) {
        call.time = now();
        boolean pull = call.kind == Kind.PULL_MESSAGE;
        boolean fits = fits(call, pull ? 2 : 1);
        closed |= !fits && !pull;
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

    /** Takes all waiting calls; their memory counts as held until {@link #release}. */
    synchronized Batch take() {
        Batch batch = new Batch(waiting, waitingBytes, now(), lost, lostFrom);
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
