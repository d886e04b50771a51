import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.LanguageCode;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Calls the broker's hook as a broker does, with mutated requests and answers, from two threads. Run by the java
 * launcher from its source, with the hook on the class path and {@code SEED CALLS}; the hook's settings are system
 * properties. Prints what the hook threw, then calls, thrown, and the heap after a quarter of the calls and at the end,
 * in bytes.
 */
public final class HookCalls {
    private static final int BURST = 500;
    private static final int[] CODES = {10, 11, 14, 15, 28, 34, 35, 38, 41, 42, 222, 310, 320, 361, 0, -1, 1 << 30, 200050,
        200051, 200053, 200151};
    private static final String[] NAMES = {"consumerGroup", "topic", "queueId", "queueOffset", "sysFlag",
        "commitOffset", "clientID", "rebalanceWatchCollector", "rebalanceWatchAsked", "properties", "a", "b", "e", "i", "offset",
        "extraInfo", "invisibleTime", "pollTime", "order", "exp", "liteTopic", "group"};
    private static final String[] VALUES = {"g", "Orders", "0", "3", "12", "A@1", "1795255680000", "poll-1@1",
        "%RETRY%g", "0 1700000000000 20000 999 1 b 0 3", "0 1700000000000 20000", "0 0 0 0 0 b", "KEYS\u0001x\u0002WAIT\u0001true\u0002", "", " ", "-1", "-2", "2147483648", "9223372036854775807",
        "9223372036854775808", "-9223372036854775808", "99999999999999999999999", "0x10", "1e3", "NaN", "null", "true",
        "\u0000", "\n", "\r\n", "\"", "\\", "\ud800", "\udc00\ud800", "\ud83d\ude00", "\u2028", "{}", "[]", "../..",
        repeated("x", 300), repeated("\u00e9", 40_000), null};
    private static final String[] BODIES = {
        "{\"clientID\":\"A@1\",\"heartbeatFingerprint\":5,\"withoutSub\":false,\"producerDataSet\":[{\"groupName\":"
            + "\"p\"}],\"consumerDataSet\":[{\"groupName\":\"g\",\"consumeType\":\"CONSUME_PASSIVELY\","
            + "\"messageModel\":\"CLUSTERING\",\"consumeFromWhere\":\"CONSUME_FROM_LAST_OFFSET\",\"unitMode\":false,"
            + "\"subscriptionDataSet\":[{\"topic\":\"Orders\",\"subString\":\"*\",\"tagsSet\":[],\"codeSet\":[],"
            + "\"subVersion\":7,\"expressionType\":\"TAG\"}]}]}",
        "{\"consumerGroup\":\"g\",\"clientId\":\"A@1\",\"onlyThisBroker\":false,\"mqSet\":[{\"topic\":\"Orders\","
            + "\"brokerName\":\"b\",\"queueId\":0},{\"topic\":\"Orders\",\"brokerName\":\"b\",\"queueId\":1}]}",
        "{\"brokerName\":\"b\",\"acks\":[{\"c\":\"g\",\"t\":\"Orders\",\"r\":\"0\",\"so\":3,\"q\":0,\"rq\":1,"
            + "\"pt\":1700000000000,\"it\":20000,\"b\":\"BQ==\"}]}",
        "{\"heartbeatType\":\"REGISTER\",\"clientId\":\"A@1\",\"group\":\"g\",\"language\":\"JAVA\",\"version\":493,"
            + "\"localProxyId\":\"p%1%2\",\"consumeType\":\"CONSUME_PASSIVELY\",\"messageModel\":\"CLUSTERING\","
            + "\"subscriptionDataSet\":[{\"topic\":\"Orders\",\"subString\":\"*\",\"subVersion\":7}]}",
        "{\"lockOKMQSet\":[{\"topic\":\"Orders\",\"brokerName\":\"b\",\"queueId\":0}]}",
        "{\"consumerIdList\":[\"A@1\",\"B@2\"]}"};
    private static final String[] PARTS = {"0", "-1", "2147483648", "-2147483649", "9223372036854775807",
        "9223372036854775808", "1e400", "0.5", "NaN", "null", "true", "\"\"", "\"0\"", "\"-1\"", "\"\\ud800\"",
        "\"\\u0000\"", "\"a\\nb\"", "[]", "{}", "[[]]", "[null]", "{\"\":0}", "{0:1}", "{\"$ref\":\"$\"}",
        "{\"@type\":\"java.net.URL\",\"val\":\"http://127.0.0.1:1\"}", "new Date(1)", "x'00'", "/**/", "\uFEFF",
        "\"" + repeated("x", 300) + "\"", repeated("[", 300) + repeated("]", 300), repeated("{\"a\":", 20_000),
        repeated("[", 100_000), repeated("9", 5_000), "\"" + repeated("y", 1_200_000) + "\"", ",", ":", "}", "]"};
    private static final Pattern TOKEN = Pattern.compile("\"[^\"]*\"|-?\\d+|true|false|null");

    private static final Class<?> STORED = storedClass();
    private static final AtomicLong THROWN = new AtomicLong();

    public static void main(String[] args) throws Exception {
        long seed = Long.parseLong(args[0]);
        int calls = Integer.parseInt(args[1]);
        RPCHook hook = (RPCHook) Class.forName("rebalancewatch.RebalanceWatchHook").getDeclaredConstructor()
            .newInstance();
        call(hook, seed, calls / 4);
        long before = heapBytes();
        call(hook, seed + 2, calls - calls / 4);
        System.out.printf("%d %d %d %d%n", calls, THROWN.get(), before, heapBytes());
        System.out.flush();
        RemotingCommand pull = RemotingCommand.createRequestCommand(11, null);
        for (int i = 0; i < 6; i++) {
            pull.addExtField(NAMES[i], VALUES[i == 0 ? 0 : i == 1 ? 1 : 2]);
        }
        hook.doAfterResponse(null, pull, null);
        System.exit(0); // the hook writes this pull, and marks its last tick
    }

    private static void call(RPCHook hook, long seed, int calls) throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (int half = 0; half < 2; half++) {
            Random random = new Random(seed + half);
            threads.add(new Thread(() -> rounds(hook, random, calls / 2)));
        }
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void rounds(RPCHook hook, Random random, int calls) {
        for (int i = 0; i < calls; i++) {
            String channel = random.nextInt(10) == 0 ? VALUES[random.nextInt(VALUES.length)] : "127.0.0.1:50000";
            RemotingCommand request = random.nextInt(500) == 0 ? null : command(random, false);
            RemotingCommand answer = random.nextInt(4) == 0 ? null : command(random, true);
            try {
                if (random.nextInt(20) != 0) {
                    hook.doBeforeRequest(channel, request);
                }
                hook.doAfterResponse(channel, request, answer);
            } catch (Throwable error) {
                if (THROWN.getAndIncrement() == 0) {
                    System.out.println("threw " + error + " at " + request);
                }
            }
            if (i % BURST == BURST - 1) {
                rest();
            }
        }
    }

    private static RemotingCommand command(Random random, boolean isAnswer) {
        RemotingCommand made = random.nextInt(100) == 0 ? new Broken() : RemotingCommand.createRequestCommand(0, null);
        made.setCode(isAnswer ? random.nextInt(30) - 1 : CODES[random.nextInt(CODES.length)]);
        made.setLanguage(random.nextInt(20) == 0 ? null : LanguageCode.JAVA);
        made.setVersion(random.nextInt(20) == 0 ? random.nextInt() : 493);
        if (isAnswer && random.nextInt(3) == 0) {
            made.writeCustomHeader(stored(random));
        }
        made.setExtFields(random.nextInt(30) == 0 ? null : fields(random));
        made.setBody(random.nextInt(10) == 0 ? null : body(random, isAnswer));
        return made;
    }

    /** Returns the header of the answer to a send. */
    private static CommandCustomHeader stored(Random random) {
        try {
            Object header = STORED.getDeclaredConstructor().newInstance();
            STORED.getMethod("setQueueId", Integer.class)
                .invoke(header, random.nextInt(20) == 0 ? null : (Integer) random.nextInt(9));
            STORED.getMethod("setQueueOffset", Long.class)
                .invoke(header, random.nextInt(20) == 0 ? null : (Long) (random.nextLong() >> random.nextInt(64)));
            return (CommandCustomHeader) header;
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Returns the class of that header, which 5.x has in another package than 4.9. */
    private static Class<?> storedClass() {
        for (String where : new String[] {"remoting", "common"}) {
            try {
                return Class.forName("org.apache.rocketmq." + where + ".protocol.header.SendMessageResponseHeader");
            } catch (ClassNotFoundException error) {
                continue;
            }
        }
        throw new IllegalStateException("not RocketMQ's jars");
    }

    private static HashMap<String, String> fields(Random random) {
        HashMap<String, String> fields = new HashMap<>();
        String[] good = {"g", "Orders", "0", "12", "1", "12", "A@1", "poll-1@1", "1795255680000", "", "g", "Orders",
            "0", "x", "3", "0 1700000000000 20000 1 0 b 0 3", "20000", "15000", "false", "*", "", "g"};
        for (int i = 0; i < NAMES.length; i++) {
            if (random.nextInt(12) != 0) {
                fields.put(NAMES[i], random.nextInt(8) == 0 ? VALUES[random.nextInt(VALUES.length)] : good[i]);
            }
        }
        return fields;
    }

    /** Returns a body in which some tokens or bytes are replaced; one of an answer, mostly, for an answer. */
    private static byte[] body(Random random, boolean isAnswer) {
        int which = random.nextInt(10) == 0 ? random.nextInt(6) : isAnswer ? 4 + random.nextInt(2) : random.nextInt(4);
        String text = BODIES[which];
        int steps = random.nextInt(3);
        for (int step = 0; step < steps; step++) {
            text = mutated(random, text);
        }
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        if (random.nextInt(12) == 0 && bytes.length > 0) {
            bytes[random.nextInt(bytes.length)] ^= (byte) (1 << random.nextInt(8));
        }
        return bytes;
    }

    private static String mutated(Random random, String text) {
        int at = random.nextInt(text.length() + 1);
        int until = at + random.nextInt(text.length() - at + 1);
        switch (random.nextInt(8)) {
            case 0:
                return text.substring(0, at);
            case 1:
                return text.substring(0, at) + text.substring(until);
            case 2:
                return text.substring(0, until) + text.substring(at, Math.min(until, at + 1_000))
                    + text.substring(until);
            default:
                return withToken(random, text);
        }
    }

    private static String withToken(Random random, String text) {
        List<int[]> places = new ArrayList<>();
        Matcher found = TOKEN.matcher(text);
        while (found.find() && places.size() < 100) {
            places.add(new int[] {found.start(), found.end()});
        }
        if (places.isEmpty()) {
            return text;
        }
        int[] place = places.get(random.nextInt(places.size()));
        // The long ones are rare: they would fill the queue, which is another test.
        int most = random.nextInt(40) == 0 ? PARTS.length : 29;
        return text.substring(0, place[0]) + PARTS[random.nextInt(most)] + text.substring(place[1]);
    }

    private static void rest() {
        try {
            Thread.sleep(20);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static long heapBytes() throws InterruptedException {
        Thread.sleep(1_500); // the writer takes what waits every second
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }

    private static String repeated(String text, int times) {
        StringBuilder made = new StringBuilder();
        for (int i = 0; i < times; i++) {
            made.append(text);
        }
        return made.toString();
    }

    /** A command whose content can't be read. */
    private static final class Broken extends RemotingCommand {
        @Override
        public HashMap<String, String> getExtFields() {
            throw new IllegalStateException("no fields");
        }

        @Override
        public byte[] getBody() {
            throw new StackOverflowError();
        }
    }
}
