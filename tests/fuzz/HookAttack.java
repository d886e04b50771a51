import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * What one client can do to the hook of a broker, while another commits as usual: bodies that are costly to parse, to
 * keep or to write, invented groups and topics, and many of them when the JVM ends. Every call makes one event, or is
 * counted as one lost call, so their sum must be exact. With {@code ROUNDS} as its argument it prints the calls that
 * make events, those of them that are commits, the processor time of the hook's thread in ms, and the heap in MB.
 */
public final class HookAttack {
    private static final int BODY_BYTES_MAX = 4 << 20;
    private static final int COMMITS = 20;
    private static final int INVENTED = 5_000;
    private static final int LAST = 300;

    private static RPCHook hook;
    private static int calls;
    private static int commits;

    public static void main(String[] args) throws Exception {
        hook = (RPCHook) Class.forName("rebalancewatch.RebalanceWatchHook").getDeclaredConstructor().newInstance();
        byte[][] bodies = {
            heartbeat("\"fromNowhere\":" + repeated("9", 4_000_000), ""),
            heartbeat("\"heartbeatFingerprint\":" + repeated("9", 1_000_000), ""),
            heartbeat("\"heartbeatFingerprint\":\"" + repeated("9", 1_000_000) + "\"", ""),
            heartbeat("\"a\":1e" + repeated("9", 300_000), ""),
            heartbeat("\"a\":" + repeated("[", 2_000_000), ""),
            heartbeat("\"a\":" + repeated("{\"b\":", 500_000), ""),
            heartbeat("\"a\":[" + repeated("[],", 1_300_000) + "0]", ""),
            heartbeat("\"a\":" + repeated(" ", 4_000_000) + "0", ""),
            heartbeat("\"a\":\"" + repeated("\\u0041", 690_000) + "\"", ""),
            heartbeat("\"a\":0", subscription(repeated("x", 1_000_000)) + repeated(
                ",{\"$ref\":\"$.consumerDataSet[0].subscriptionDataSet[0]\"}", 40_000)),
            heartbeat("\"a\":0", subscription(repeated("\u0001", 4_000_000))),
            heartbeat("\"a\":0", subscription(repeated("\u0001", 900_000))),
            heartbeat("\"a\":0", subscription("x") + repeated("," + subscription("\u2028"), 45_000)),
            heartbeat("\"a\":0", "0" + repeated(",0", 1_900_000)),
            new byte[BODY_BYTES_MAX + 1],
            Arrays.copyOf(heartbeat("\"a\":\"" + repeated("\\", 4_000_000), ""), BODY_BYTES_MAX),
        };
        for (int round = 0; round < Integer.parseInt(args[0]); round++) {
            for (byte[] body : bodies) {
                for (int i = 0; i < COMMITS; i++) {
                    commit();
                }
                call(34, null, null, body);
                Thread.sleep(60); // the writer takes what waits: a full queue is another test
            }
            for (int i = 0; i < INVENTED; i++) {
                call(38, "consumerGroup", "invented-" + round + "-" + i, null);
                send("invented-" + round + "-" + i);
            }
            Thread.sleep(200);
        }
        long millis = writerNanos() / 1_000_000;
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        long heap = runtime.totalMemory() - runtime.freeMemory() >> 20;
        for (int i = 0; i < LAST; i++) {
            commit();
            call(34, null, null, bodies[i % bodies.length]);
        }
        System.out.printf("%d %d %d %d%n", calls, commits, millis, heap);
        System.out.flush();
        System.exit(0);
    }

    private static byte[] heartbeat(String field, String subscriptions) {
        return ("{" + field + ",\"clientID\":\"A@1\",\"consumerDataSet\":[{\"groupName\":\"g\",\"consumeType\":\"C\","
            + "\"subscriptionDataSet\":[" + subscriptions + "]}]}").getBytes(StandardCharsets.UTF_8);
    }

    private static String subscription(String text) {
        return "{\"topic\":\"Orders\",\"subString\":\"" + text + "\"}";
    }

    private static void commit() {
        commits++;
        RemotingCommand request = RemotingCommand.createRequestCommand(15, null);
        String[] fields = {"consumerGroup", "bystander", "topic", "Orders", "queueId", "0", "commitOffset", "7"};
        for (int i = 0; i < fields.length; i += 2) {
            request.addExtField(fields[i], fields[i + 1]);
        }
        call(request);
    }

    private static void call(int code, String field, String value, byte[] body) {
        RemotingCommand request = RemotingCommand.createRequestCommand(code, null);
        if (field != null) {
            request.addExtField(field, value);
        }
        request.setBody(body);
        call(request);
    }

    private static void call(RemotingCommand request) {
        calls++;
        int code = request.getCode() == 38 ? 1 : 0; // nobody is in an invented group
        hook.doBeforeRequest("127.0.0.1:50000", request);
        hook.doAfterResponse("127.0.0.1:50000", request, RemotingCommand.createResponseCommand(code, ""));
    }

    /** A send to a topic, which makes no event. */
    private static void send(String topic) throws Exception {
        RemotingCommand request = RemotingCommand.createRequestCommand(10, null);
        request.addExtField("topic", topic);
        RemotingCommand answer = RemotingCommand.createResponseCommand(0, "");
        answer.writeCustomHeader(stored());
        hook.doAfterResponse("127.0.0.1:50000", request, answer);
    }

    /** Returns the header of the answer to a send, which 5.x has in another package than 4.9. */
    private static CommandCustomHeader stored() throws Exception {
        Class<?> found;
        try {
            found = Class.forName("org.apache.rocketmq.remoting.protocol.header.SendMessageResponseHeader");
        } catch (ClassNotFoundException error) {
            found = Class.forName("org.apache.rocketmq.common.protocol.header.SendMessageResponseHeader");
        }
        Object header = found.getDeclaredConstructor().newInstance();
        found.getMethod("setQueueId", Integer.class).invoke(header, 0);
        found.getMethod("setQueueOffset", Long.class).invoke(header, 1L);
        return (CommandCustomHeader) header;
    }

    private static long writerNanos() {
        ThreadMXBean beans = ManagementFactory.getThreadMXBean();
        long nanos = 0;
        for (long id : beans.getAllThreadIds()) {
            ThreadInfo thread = beans.getThreadInfo(id);
            if (thread != null && thread.getThreadName().equals("rebalance-watch-hook")) {
                nanos += beans.getThreadCpuTime(id);
            }
        }
        return nanos;
    }

    private static String repeated(String text, int times) {
        StringBuilder made = new StringBuilder(text.length() * times);
        for (int i = 0; i < times; i++) {
            made.append(text);
        }
        return made.toString();
    }
}
