import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.header.SendMessageResponseHeader;

/**
 * What an RPC's own thread pays for the hook: processor time of a call, in ns. Run by the java launcher from its
 * source, with the hook on the class path; prints a line for each kind of call. Bursts, and a rest after each: the
 * queue would refuse what no broker could ever serve at once.
 */
public final class HookCost {
    private static final int BURST = 2_000;
    private static final int BURSTS = 60;

    public static void main(String[] args) throws Exception {
        Class<?> hookClass = Class.forName("rebalancewatch.RebalanceWatchHook");
        RPCHook hook = (RPCHook) hookClass.getDeclaredConstructor().newInstance();
        byte[] heartbeat = ("{\"clientID\":\"c\",\"consumerDataSet\":[{\"groupName\":\"g\","
            + "\"consumeType\":\"CONSUME_PASSIVELY\",\"messageModel\":\"CLUSTERING\","
            + "\"subscriptionDataSet\":[{\"topic\":\"t\",\"subString\":\"*\"}]}]}")
            .getBytes(StandardCharsets.UTF_8);
        RemotingCommand answer = RemotingCommand.createResponseCommand(0, "");
        print("send, answered later", cost(hook, 10, null, null));
        print("send, answered within the call", cost(hook, 10, null, stored()));
        print("send with short names, answered later", cost(hook, 310, null, null));
        print("pull", cost(hook, 11, null, null));
        print("POP", cost(hook, 200050, null, null));
        print("ack", cost(hook, 200051, null, answer));
        print("change of the invisible time", cost(hook, 200053, null, answer));
        print("offset commit", cost(hook, 15, null, answer));
        print("heartbeat", cost(hook, 34, heartbeat, answer));
        print("member-list question", cost(hook, 38, null, answer));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void print(String name, double cost) {
        System.out.printf("%s\t%.0f%n", name, cost);
    }

    /** The answer to a send: where the message is. */
    private static RemotingCommand stored() {
        SendMessageResponseHeader header = new SendMessageResponseHeader();
        header.setQueueId(3);
        header.setQueueOffset(12L);
        RemotingCommand answer = RemotingCommand.createResponseCommand(0, "");
        answer.writeCustomHeader(header);
        return answer;
    }

    private static double cost(RPCHook hook, int code, byte[] body, RemotingCommand response)
        throws InterruptedException {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        RemotingCommand request = RemotingCommand.createRequestCommand(code, null);
        String[] fields = {"consumerGroup", "g", "topic", "t", "queueId", "3", "queueOffset", "12", "commitOffset",
            "12", "sysFlag", "1", "offset", "12", "extraInfo",
            "12 1700000000000 20000 0 0 broker-a 3 12", "invisibleTime", "20000", "pollTime", "15000", "order", "false",
            "exp", "*", "b", "t", "properties", "KEYS\u0001order-4711\u0002WAIT\u0001true\u0002"};
        for (int i = 0; i < fields.length; i += 2) {
            request.addExtField(fields[i], fields[i + 1]);
        }
        request.setBody(body);
        long spent = 0;
        for (int burst = 0; burst < BURSTS; burst++) {
            long begun = threads.getCurrentThreadCpuTime();
            for (int i = 0; i < BURST; i++) {
                hook.doBeforeRequest("127.0.0.1:50000", request);
                hook.doAfterResponse("127.0.0.1:50000", request, response);
            }
            if (burst >= BURSTS / 2) { // those before let the JVM compile
                spent += threads.getCurrentThreadCpuTime() - begun;
            }
            Thread.sleep(150);
        }
        return (double) spent / (BURST * (BURSTS - BURSTS / 2));
    }
}
