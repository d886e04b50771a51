package rebalancewatch;

import java.util.concurrent.TimeUnit;

/** The thread that takes the calls from the queue, writes their events, and ticks. It ends only with the JVM. */
final class Writer implements Runnable {
    private static final String NAME = "rebalance-watch-hook";
    private static final long ROUND_MS = 50;
    private static final long TICK = TimeUnit.SECONDS.toNanos(1);
    /** How long the calls that wait are processed when the JVM ends; the rest is counted as lost. */
    private static final long END_NANOS_MAX = TimeUnit.SECONDS.toNanos(2);
    /** How long the JVM waits for a round to end: for the call and the write that it is at. */
    private static final long END_WAIT_NANOS_MAX = TimeUnit.SECONDS.toNanos(10);

    private final CallQueue queue;
    private final Losses losses = new Losses();
    private final Spool spool;
    private final Telemetry telemetry;
    private long ticked = System.nanoTime();
    /** Whether the start of the broker is on disk; written again after every error. */
    private boolean announced;
    private boolean failing;

    private long endBegun;
    private volatile boolean ending;
    private volatile Thread thread;

    Writer(Settings settings, CallQueue queue) {
        this.queue = queue;
        this.spool = new Spool(settings, losses);
        this.telemetry = new Telemetry(settings, spool, losses);
        Runtime.getRuntime().addShutdownHook(new Thread(this::end, NAME + "-end"));
    }

    /** Starts the thread, or another if it was killed; costs an RPC no more than a check. */
    void ensureAlive() {
        if (!isAlive() && !ending) {
            revive();
        }
    }

    private boolean isAlive() {
        Thread current = thread;
        return current != null && current.isAlive();
    }

    private synchronized void revive() {
        if (!isAlive()) {
            Thread next = new Thread(this, NAME);
            next.setDaemon(true);
            next.start();
            thread = next;
        }
    }

    @Override
    public void run() {
        while (!ending) {
            try {
                pause();
                round(false);
                failing = false;
            } catch (Throwable error) {
                if (!failing) {
                    Log.say("telemetry is lost: " + error);
                }
                failing = true;
            }
        }
    }

    /** Runs one round; only one thread at a time. */
    private synchronized void round(boolean last) {
        CallQueue.Batch batch = queue.take();
        try {
            telemetry.tell(batch, this::isLate);
        } finally {
            queue.release(batch);
        }
        if (batch.step != 0) {
            telemetry.clockSet(batch.until, batch.step);
        }
        long time = batch.until + batch.step;
        long now = System.nanoTime();
        boolean due = last || now - ticked >= TICK;
        if (due) {
            ticked = now - ticked < 2 * TICK ? ticked + TICK : now; // a second each, without drift
            if (!announced) {
                telemetry.booted(time);
            }
            telemetry.tick(time, last);
        }
        boolean written = spool.flush();
        announced = written && (announced || due);
    }

    /** Pauses; an interrupt has no effect but to shorten the pause. */
    private static void pause() {
        try {
            Thread.sleep(ROUND_MS);
        } catch (InterruptedException error) {
            // the flag is cleared by it
        }
    }

    private boolean isLate() {
        return ending && System.nanoTime() - endBegun > END_NANOS_MAX;
    }

    /** Writes the remaining calls when the JVM ends, or counts them as lost, and marks the last tick. */
    private void end() {
        endBegun = System.nanoTime();
        ending = true;
        try {
            while (isAlive() && System.nanoTime() - endBegun < END_WAIT_NANOS_MAX) {
                pause(); // unlike a join, not ended by an interrupt
            }
            if (!isAlive()) {
                round(true);
                spool.close();
            }
        } catch (Throwable error) {
            Log.say("the last events are lost: " + error);
        }
    }
}
