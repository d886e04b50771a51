package rebalancewatch;

import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Writes down what consumers ask of this broker: heartbeats, locks, offsets, questions, pulls. For brokers 4.9 and 5.x,
 * which find it by {@code META-INF/service/org.apache.rocketmq.remoting.RPCHook} and make one for each broker.
 *
 * <p>An RPC pays for a copy of some references and one short lock ({@link CallQueue}); parsing, JSON and files are the
 * business of a thread of its own ({@link Writer}). Nothing that goes wrong here reaches the RPC: telemetry is lost,
 * counted and reported instead.
 *
 * <p>Memory: calls that wait, at most {@code queueBytes} (32 MB) and {@code queueCapacity} of them; at most
 * {@link PullSums#MAX} sums of pulls (30 MB, if as many queues are pulled within a second);
 * {@link Telemetry#GROUPS_MAX} sequences (32 MB, if all groups have the longest name); one call that is parsed (20 MB);
 * 2 MB of lines that are about to be written. So below 128 MB at its worst; in practice a few.
 */
public final class RebalanceWatchHook implements RPCHook {
    private final CallQueue queue;
    private final Writer writer;
    /** When this thread began with the question that it is at. Two calls of a thread never overlap. */
    private final ThreadLocal<Long> asked = new ThreadLocal<>();

    /** Made by the broker while it starts; never fails. */
    public RebalanceWatchHook() {
        CallQueue queue = null;
        Writer writer = null;
        try {
            Settings settings = Settings.read();
            if (settings == null) {
                Log.say("off: set -Drebalance.watch.spool=DIRECTORY to switch it on");
            } else {
                queue = new CallQueue(settings.queueCapacity, settings.queueBytes);
                writer = new Writer(settings, queue);
                writer.ensureAlive();
                Log.say("on: " + settings.sourceId + " of " + settings.cluster + " writes to " + settings.spool);
            }
        } catch (Throwable error) {
            Log.say("off: " + error);
            queue = null;
        }
        this.queue = queue;
        this.writer = writer;
    }

    @Override
    public void doBeforeRequest(String remoteAddr, RemotingCommand request) {
        try {
            if (queue != null && request.getCode() == Kind.GET_CONSUMER_LIST_BY_GROUP.code) {
                asked.set(queue.now());
            }
        } catch (Throwable error) {
            // without the stamp the event says 0: not known
        }
    }

    @Override
    public void doAfterResponse(String remoteAddr, RemotingCommand request, RemotingCommand response) {
        try {
            Kind kind = queue == null ? null : Kind.of(request.getCode());
            if (kind != null) {
                writer.ensureAlive();
                queue.offer(new Call(kind, remoteAddr, request, response, kind.timed() ? asked.get() : null));
            }
        } catch (Throwable error) {
            // out of memory, at worst: this call is not told
            if (queue != null) {
                queue.lost();
            }
        }
    }
}
