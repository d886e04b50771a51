package rebalancewatch;

import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * The newest offset of each queue (one past its last message), as the answers to SEND_MESSAGE, SEND_MESSAGE_V2 and
 * SEND_BATCH_MESSAGE show it.
 *
 * <p>Only a broker that passes the answer to its hooks shows it. Measured on 2026-11-22
 * (tests/live/test_broker_hook.py): 4.9.7 does, with asyncSendEnable and without; 5.4.0 does with asyncSendEnable=false
 * (where it answers each send twice, so it is not usable for this); 5.4.0 by default answers past its hooks, which get
 * null.
 *
 * <p>Other messages come into a queue without a send to it: delayed and transactional ones when they are due or
 * committed, retries. A topic that gets one of the former is unknown from then on; the retry topics always are. The
 * methods run in the RPC's thread: two look-ups in hash tables for a send, a pull or a commit; nothing is parsed but a
 * number.
 *
 * <p>Beyond {@link Limits#NEWEST_QUEUES} all are forgotten, and come back with the next send to each. Unknown topics
 * are never forgotten: they are marked by their hash, so that another topic of the same hash is unknown, too.
 */
final class NewestOffsets {
    private static final int SEND_MESSAGE = 10;
    static final int SEND_MESSAGE_V2 = 310;
    private static final int SEND_BATCH_MESSAGE = 320;
    private static final int SUCCESS = 0;
    static final String RETRY_TOPIC_PREFIX = "%RETRY%";
    /** Properties (MessageConst) of a message that is stored elsewhere first, under another queue's offset. */
    private static final String[] STORED_ELSEWHERE = {"DELAY\u0001", "TRAN_MSG\u0001true", "TIMER_D"};
    /** Marks of unknown topics, a power of two: 128 KB. */
    private static final int MARKS = 1 << 20;

    private final Map<String, Map<Integer, AtomicLong>> topics = new ConcurrentHashMap<>();
    /** The number of topics and queues, about: a topic may be forgotten while one of its queues is added. */
    private final AtomicInteger size = new AtomicInteger();
    private final AtomicIntegerArray unknown = new AtomicIntegerArray(MARKS / Integer.SIZE);
    private volatile Answer answer;

    /** How an answer's header is read: 4.9 and 5.x have the same class in different packages. */
    private static final class Answer {
        final Class<?> header;
        final Method queueId;
        final Method queueOffset;

        Answer(Class<?> header) throws ReflectiveOperationException {
            this.header = header;
            this.queueId = header.getMethod("getQueueId");
            this.queueOffset = header.getMethod("getQueueOffset");
        }
    }

    static boolean isSend(int code) {
        return code == SEND_MESSAGE_V2 || code == SEND_MESSAGE || code == SEND_BATCH_MESSAGE;
    }

    /** Records the answer to a send; null if the broker answers later. */
    void sent(RemotingCommand request, RemotingCommand response) throws ReflectiveOperationException {
        Map<String, String> fields = request.getExtFields();
        if (response == null || response.getCode() != SUCCESS || response.readCustomHeader() == null || fields == null) {
            return;
        }
        boolean plain = request.getCode() == SEND_MESSAGE; // the others have short names (SendMessageRequestHeaderV2)
        String topic = fields.get(plain ? "topic" : "b");
        if (topic == null || topic.length() > Limits.TOPIC_CHARACTERS || topic.startsWith(RETRY_TOPIC_PREFIX)
            || isUnknown(topic)) {
            return;
        }
        if (isStoredElsewhere(fields.get(plain ? "properties" : "i"))) {
            markUnknown(topic);
            Map<Integer, AtomicLong> queues = topics.remove(topic);
            size.addAndGet(queues == null ? 0 : -1 - queues.size());
            return;
        }
        Object header = response.readCustomHeader();
        Answer read = answer;
        if (read == null || read.header != header.getClass()) {
            read = new Answer(header.getClass());
            answer = read;
        }
        Object queueId = read.queueId.invoke(header);
        Object first = read.queueOffset.invoke(header);
        if (queueId instanceof Integer && first instanceof Long) {
            int count = request.getCode() == SEND_BATCH_MESSAGE ? count(request.getBody()) : 1;
            raise(topic, (Integer) queueId, (Long) first + count);
        }
    }

    /** Returns the newest offset of a queue; -1: unknown. */
    long of(String topic, String queueId) {
        Map<Integer, AtomicLong> queues = topic == null || topics.isEmpty() ? null : topics.get(topic);
        if (queues == null || isUnknown(topic)) {
            return -1;
        }
        try {
            AtomicLong newest = queues.get(Integer.valueOf(queueId));
            return newest == null ? -1 : newest.get();
        } catch (NumberFormatException error) {
            return -1; // the event will not be made either
        }
    }

    private void raise(String topic, Integer queueId, long offset) {
        Map<Integer, AtomicLong> queues = topics.get(topic);
        AtomicLong newest = queues == null ? null : queues.get(queueId);
        if (newest == null) {
            int more = queues == null ? 2 : 1;
            if (size.addAndGet(more) > Limits.NEWEST_QUEUES) {
                topics.clear();
                size.set(more);
            }
            newest = topics.computeIfAbsent(topic, missing -> new ConcurrentHashMap<>(4))
                .computeIfAbsent(queueId, missing -> new AtomicLong(offset));
        }
        newest.accumulateAndGet(offset, Math::max);
    }

    private boolean isUnknown(String topic) {
        int mark = topic.hashCode() & MARKS - 1;
        return (unknown.get(mark / Integer.SIZE) & 1 << mark % Integer.SIZE) != 0;
    }

    private void markUnknown(String topic) {
        int mark = topic.hashCode() & MARKS - 1;
        unknown.accumulateAndGet(mark / Integer.SIZE, 1 << mark % Integer.SIZE, (before, one) -> before | one);
    }

    private static boolean isStoredElsewhere(String properties) {
        if (properties != null) {
            for (String one : STORED_ELSEWHERE) {
                if (properties.contains(one)) {
                    return true;
                }
            }
        }
        return false;
    }

    /** How many messages a batch's body holds: each begins with its length (MessageDecoder.encodeMessages). */
    private static int count(byte[] body) {
        ByteBuffer rest = ByteBuffer.wrap(body == null ? new byte[0] : body);
        int count = 0;
        while (rest.remaining() >= Integer.BYTES) {
            int length = rest.getInt(rest.position());
            if (length < Integer.BYTES || length > rest.remaining()) {
                break;
            }
            rest.position(rest.position() + length);
            count++;
        }
        return Math.max(1, count);
    }
}
