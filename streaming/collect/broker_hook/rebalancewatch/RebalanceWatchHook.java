package rebalancewatch;

import java.util.Map;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Records the requests of consumers to this broker: heartbeats, locks, offsets, queries, pulls, POPs, acks; and the
 * heartbeats of proxies' clients, which proxies send to each other through a topic. For brokers 4.9 and 5.x, which find
 * it by {@code META-INF/service/org.apache.rocketmq.remoting.RPCHook} and create one for each broker.
 *
 * <p>An RPC pays for a copy of some references and one short lock ({@link CallQueue}); parsing, JSON and files are
 * left to a separate thread ({@link Writer}). No error here reaches the RPC: telemetry is lost, counted and reported
 * instead.
 *
 * <p>A collector's request (GET_BROKER_RUNTIME_INFO with two extra fields) is reported with the moment at which the
 * broker began to process it (CLOCK_SEEN): times before and after the processing bound the difference of the clocks
 * equally well (tests/PROVED.md). The newest offset of a queue is known from the answers to sends ({@link
 * NewestOffsets} lists the brokers). When the JVM ends on request, the last tick is marked as the end.
 *
 * <p>Memory: calls that wait, at most {@code queueBytes} (32 MB) and {@code queueCapacity} of them; and what {@link
 * Limits} allows: sums of pulls, POPs and acks (24 MB, if as many queues are consumed within a second), sequences (32
 * MB, if all groups have the longest name), newest offsets (25 MB), the content of one body (12 MB), and 3 MB of lines
 * that are about to be written. So about 128 MB at its worst; in practice a few.
 */
public final class RebalanceWatchHook implements RPCHook {
    private final CallQueue queue;
    private final Writer writer;
    private final String heartbeatSyncerTopic;
    private final NewestOffsets newest = new NewestOffsets();
    /** When this thread began to process its current request. Two calls of a thread never overlap. */
    private final ThreadLocal<Long> begun = new ThreadLocal<>();

    /** Called by the broker while it starts; never fails. */
    public RebalanceWatchHook() {
        CallQueue queue = null;
        Writer writer = null;
        String topic = null;
        try {
            Settings settings = Settings.read();
            if (settings == null) {
                Log.say("off: set -Drebalance.watch.spool=DIRECTORY to switch it on");
            } else {
                queue = new CallQueue(settings.queueCapacity, settings.queueBytes);
                topic = settings.heartbeatSyncerTopic;
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
        this.heartbeatSyncerTopic = topic;
    }

    @Override
    public void doBeforeRequest(String remoteAddr, RemotingCommand request) {
        try {
            Kind kind = queue == null ? null : Kind.of(request.getCode());
            if (kind != null && (kind.timed() || kind.overtaken())) {
                begun.set(System.nanoTime());
            }
        } catch (Throwable error) {
            // without the stamp the event has 0: unknown
        }
    }

    @Override
    public void doAfterResponse(String remoteAddr, RemotingCommand request, RemotingCommand response) {
        boolean makesEvent = true;
        try {
            int code = queue == null ? -1 : request.getCode();
            makesEvent = !NewestOffsets.isSend(code);
            Kind kind = makesEvent ? Kind.of(code) : null;
            if (!makesEvent) {
                newest.sent(request, response);
                makesEvent = isHeartbeat(code, request);
                kind = makesEvent ? Kind.PROXY_HEART_BEAT : null;
            }
            if (kind != null) {
                writer.ensureAlive();
                queue.offer(new Call(kind, remoteAddr, request, response, begun.get(), newest));
            }
        } catch (Throwable error) {
            // out of memory, at worst: this call makes no event
            if (queue != null && makesEvent) {
                queue.lost();
            }
        }
    }

    /** Whether a proxy sends the heartbeat of a client to the other proxies; field b of the short header is the topic. */
    private boolean isHeartbeat(int code, RemotingCommand request) {
        Map<String, String> fields = code == NewestOffsets.SEND_MESSAGE_V2 ? request.getExtFields() : null;
        return fields != null && heartbeatSyncerTopic.equals(fields.get("b"));
    }
}
