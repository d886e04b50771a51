package rebalancewatch;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.BitSet;
import java.util.Collections;
import java.util.List;

/**
 * What the events need of a body, decoded once. A failure is confined to its part: a field that can't be read has its
 * default, a consumer, subscription, queue or client id without a valid name is left out, and both are counted.
 */
final class Bodies {
    /** Their constants in RocketMQ's order; the classes are in other packages in 4.9 and in 5.x. */
    private static final String[] CONSUME_TYPES = {"CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP"};
    private static final String[] HEARTBEAT_TYPES = {"REGISTER", "UNREGISTER"};
    private static final String[] MESSAGE_MODELS = {"BROADCASTING", "CLUSTERING"};
    private static final String[] CONSUME_FROM_WHERE = {
        "CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST", "CONSUME_FROM_MIN_OFFSET",
        "CONSUME_FROM_MAX_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP",
    };

    private Bodies() {
    }

    /** A client's heartbeat (HeartbeatData). */
    static final class Heartbeat {
        /** Null: there is none. */
        String clientId;
        boolean withoutSub;
        int fingerprint;
        List<Consumer> consumers = Collections.emptyList();
        /** Consumers that are left out: without a group, and beyond {@link Limits#HEARTBEAT_GROUPS}. */
        int unreadable;
        int beyond;
        int unknown;
    }

    /** One group of a heartbeat (ConsumerData); a text that is unknown is empty. */
    static final class Consumer {
        String group;
        String consumeType = "";
        String messageModel = "";
        String consumeFromWhere = "";
        /** Null: they are unknown. */
        List<Subscription> subscriptions = Collections.emptyList();
    }

    /** A subscription (SubscriptionData). */
    static final class Subscription {
        String topic;
        /** Empty: it was not sent; null: it can't be read. */
        String subString = "";
        String expressionType = "TAG";
        long version;
    }

    /** A request for locks, or to release them (LockBatchRequestBody, UnlockBatchRequestBody). */
    static final class LockRequest {
        String group;
        String clientId;
        boolean onlyThisBroker;
        List<Queue> queues = Collections.emptyList();
        int unknown;
    }

    /** One receipt of a BATCH_ACK (BatchAck). */
    static final class BatchAck {
        String group;
        /** The topic, or the group's retry topic of it. */
        String topic;
        long queueId;
        Handle handle;
        private long start;
        /** One for each offset from the start; as ranges they may need 40 times as much memory as in the body. */
        private BitSet acked;

        OffsetRanges offsets() {
            OffsetRanges made = null;
            for (int from = acked.nextSetBit(0); from >= 0; ) {
                int end = acked.nextClearBit(from);
                if (made == null) {
                    made = new OffsetRanges(start + from, start + end - 1);
                } else {
                    made.add(start + from, start + end - 1);
                }
                from = acked.nextSetBit(end);
            }
            return made;
        }
    }

    /** A client's heartbeat, or its end, as a proxy copies it to the others (HeartbeatSyncerData). */
    static final class ProxyHeartbeat {
        String group;
        String clientId;
        String proxy = "";
        private String type = "";
        String language = "";
        int version;
        String consumeType = "";
        String messageModel = "";
        /** Null: they are unknown. */
        List<Subscription> subscriptions = Collections.emptyList();
        int unknown;

        /** Whether the client is registered; otherwise it has left. */
        boolean registers() {
            return type.equals(HEARTBEAT_TYPES[0]);
        }
    }

    /** A MessageQueue. */
    static final class Queue {
        String topic;
        String broker;
        long id = -1;
    }

    /** The names in an answer, and how many of it could not be read. */
    static final class Listed<T> {
        final List<T> values;
        final int unknown;

        private Listed(List<T> values, int unknown) {
            this.values = values;
            this.unknown = unknown;
        }
    }

    /** Reads one value of a list; null: it is left out. */
    private interface Part<T> {
        T read(JsonReader json);
    }

    static Heartbeat heartbeat(byte[] body) {
        JsonReader json = new JsonReader(body);
        Heartbeat read = new Heartbeat();
        for (String field = begin(json); field != null; field = json.field()) {
            switch (field) {
                case "clientID":
                    read.clientId = json.name(Limits.NAME_CHARACTERS);
                    break;
                case "withoutSub":
                    read.withoutSub = json.flag();
                    break;
                case "heartbeatFingerprint":
                    read.fingerprint = json.int32(0);
                    break;
                case "consumerDataSet":
                    consumers(json, read);
                    break;
                default:
                    json.skip();
            }
        }
        read.unknown = json.unknown();
        return read;
    }

    static LockRequest lockRequest(byte[] body) {
        JsonReader json = new JsonReader(body);
        LockRequest read = new LockRequest();
        for (String field = begin(json); field != null; field = json.field()) {
            switch (field) {
                case "consumerGroup":
                    read.group = json.name(Limits.GROUP_CHARACTERS);
                    break;
                case "clientId":
                    read.clientId = json.name(Limits.NAME_CHARACTERS);
                    break;
                case "onlyThisBroker":
                    read.onlyThisBroker = json.flag();
                    break;
                case "mqSet":
                    read.queues = required(list(json, Bodies::queue));
                    break;
                default:
                    json.skip();
            }
        }
        read.unknown = json.unknown();
        return read;
    }

    /** Reads the queues that a broker has locked (LockBatchResponseBody). */
    static Listed<Queue> locked(byte[] answer) {
        return listed(answer, "lockOKMQSet", Bodies::queue);
    }

    /** Reads the ids of a group's members (GetConsumerListByGroupResponseBody). */
    static Listed<String> clientIds(byte[] answer) {
        return listed(answer, "consumerIdList", json -> json.name(Limits.NAME_CHARACTERS));
    }

    /**
     * Reads the receipts that a proxy acks together (BatchAckMessageRequestBody).
     *
     * @param now the time of the call
     */
    static Listed<BatchAck> batchAcks(byte[] body, long now) {
        return listed(body, "acks", json -> batchAck(json, now));
    }

    static ProxyHeartbeat proxyHeartbeat(byte[] body) {
        JsonReader json = new JsonReader(body);
        ProxyHeartbeat read = new ProxyHeartbeat();
        for (String field = begin(json); field != null; field = json.field()) {
            switch (field) {
                case "group":
                    read.group = json.name(Limits.GROUP_CHARACTERS);
                    break;
                case "clientId":
                    read.clientId = json.name(Limits.NAME_CHARACTERS);
                    break;
                case "localProxyId":
                    read.proxy = text(json, "");
                    break;
                case "heartbeatType":
                    read.type = constant(json, HEARTBEAT_TYPES);
                    break;
                case "language":
                    read.language = text(json, "");
                    break;
                case "version":
                    read.version = json.int32(0);
                    break;
                case "consumeType":
                    read.consumeType = constant(json, CONSUME_TYPES);
                    break;
                case "messageModel":
                    read.messageModel = constant(json, MESSAGE_MODELS);
                    break;
                case "subscriptionDataSet":
                    read.subscriptions = list(json, Bodies::subscription);
                    break;
                default:
                    json.skip();
            }
        }
        if (!Arrays.asList(HEARTBEAT_TYPES).contains(read.type)) {
            throw new IllegalArgumentException("neither a heartbeat nor its end");
        }
        read.unknown = json.unknown();
        return read;
    }

    private static <T> Listed<T> listed(byte[] answer, String name, Part<T> part) {
        JsonReader json = new JsonReader(answer);
        List<T> values = Collections.emptyList();
        for (String field = begin(json); field != null; field = json.field()) {
            if (field.equals(name)) {
                values = required(list(json, part));
            } else {
                json.skip();
            }
        }
        return new Listed<>(values, json.unknown());
    }

    private static String begin(JsonReader json) {
        return json.beginBody() ? json.field() : null;
    }

    private static void consumers(JsonReader json, Heartbeat read) {
        read.consumers = new ArrayList<>();
        read.unreadable = 0;
        read.beyond = 0;
        if (!json.beginList()) {
            return;
        }
        while (json.more()) {
            if (read.consumers.size() == Limits.HEARTBEAT_GROUPS) {
                json.skip();
                read.beyond++;
                continue;
            }
            int before = json.unknown();
            Consumer consumer = consumer(json);
            if (consumer == null) {
                json.setUnknown(before);
                read.unreadable++;
            } else {
                read.consumers.add(consumer);
            }
        }
    }

    private static Consumer consumer(JsonReader json) {
        if (!json.beginObject()) {
            return null;
        }
        Consumer read = new Consumer();
        for (String field = json.field(); field != null; field = json.field()) {
            switch (field) {
                case "groupName":
                    read.group = json.name(Limits.GROUP_CHARACTERS);
                    break;
                case "consumeType":
                    read.consumeType = constant(json, CONSUME_TYPES);
                    break;
                case "messageModel":
                    read.messageModel = constant(json, MESSAGE_MODELS);
                    break;
                case "consumeFromWhere":
                    read.consumeFromWhere = constant(json, CONSUME_FROM_WHERE);
                    break;
                case "subscriptionDataSet":
                    read.subscriptions = list(json, Bodies::subscription);
                    break;
                default:
                    json.skip();
            }
        }
        return read.group == null ? null : read;
    }

    private static Subscription subscription(JsonReader json) {
        if (!json.beginObject()) {
            return null;
        }
        Subscription read = new Subscription();
        for (String field = json.field(); field != null; field = json.field()) {
            switch (field) {
                case "topic":
                    read.topic = json.name(Limits.NAME_CHARACTERS);
                    break;
                case "subString":
                    int before = json.unknown();
                    read.subString = json.text(Limits.EVENT_BYTES);
                    if (read.subString == null && json.unknown() == before) {
                        read.subString = "";
                    }
                    break;
                case "expressionType":
                    read.expressionType = text(json, "TAG");
                    break;
                case "subVersion":
                    read.version = json.number(0);
                    break;
                default:
                    json.skip();
            }
        }
        return read.topic == null ? null : read;
    }

    private static Queue queue(JsonReader json) {
        if (!json.beginObject()) {
            return null;
        }
        Queue read = new Queue();
        for (String field = json.field(); field != null; field = json.field()) {
            switch (field) {
                case "topic":
                    read.topic = json.name(Limits.NAME_CHARACTERS);
                    break;
                case "brokerName":
                    read.broker = json.name(Limits.NAME_CHARACTERS);
                    break;
                case "queueId":
                    read.id = json.int32(-1);
                    break;
                default:
                    json.skip();
            }
        }
        return read.topic == null || read.broker == null || read.id < 0 ? null : read;
    }

    private static BatchAck batchAck(JsonReader json, long now) {
        if (!json.beginObject()) {
            return null;
        }
        BatchAck read = new BatchAck();
        read.start = -1;
        String retry = "";
        String bits = null;
        long revive = -1;
        long popTime = -1;
        long invisible = -1;
        for (String field = json.field(); field != null; field = json.field()) {
            switch (field) {
                case "c":
                    read.group = json.name(Limits.GROUP_CHARACTERS);
                    break;
                case "t":
                    read.topic = json.name(Limits.NAME_CHARACTERS);
                    break;
                case "r":
                    retry = text(json, "");
                    break;
                case "so":
                    read.start = json.number(-1);
                    break;
                case "q":
                    read.queueId = json.int32(-1);
                    break;
                case "rq":
                    revive = json.number(-1);
                    break;
                case "pt":
                    popTime = json.number(-1);
                    break;
                case "it":
                    invisible = json.number(-1);
                    break;
                case "b":
                    bits = json.text(Limits.ACK_BITS / 4);
                    break;
                default:
                    json.skip();
            }
        }
        try {
            read.topic = topic(Names.group(read.group), Names.name(read.topic), retry);
            read.queueId = Telemetry.within(0, Integer.MAX_VALUE, read.queueId);
            read.handle = new Handle(popTime, invisible, revive, now);
            Telemetry.within(0, Telemetry.OFFSET_MAX - Limits.ACK_BITS, read.start);
            read.acked = acked(Base64.getDecoder().decode(Names.name(bits)));
        } catch (IllegalArgumentException error) {
            return null;
        }
        return read;
    }

    /** Returns the topic of a receipt: the group's retry topic of it, if the message was delivered again. */
    private static String topic(String group, String topic, String retry) {
        switch (retry) {
            case "0":
                return topic;
            case "1": // KeyBuilder.buildPopRetryTopicV1
                return Names.name(NewestOffsets.RETRY_TOPIC_PREFIX + group + "_" + topic);
            case "2": // KeyBuilder.buildPopRetryTopicV2
                return Names.name(NewestOffsets.RETRY_TOPIC_PREFIX + group + "+" + topic);
            default:
                throw new IllegalArgumentException("neither a topic nor a retry topic");
        }
    }

    /** Returns the bits that are set, as many as a receipt may have (BitSet.toByteArray). */
    private static BitSet acked(byte[] bits) {
        BitSet set = BitSet.valueOf(bits);
        if (set.isEmpty() || set.length() > Limits.ACK_BITS || set.cardinality() > Limits.ACK_RANGES) {
            throw new IllegalArgumentException(set.cardinality() + " of " + set.length() + " bits");
        }
        return set;
    }

    private static String text(JsonReader json, String otherwise) {
        String text = json.text(Limits.NAME_CHARACTERS);
        return text == null ? otherwise : text;
    }

    /** Reads a constant of an enum: its name, or its number, which the client in C++ sends and the broker takes. */
    private static String constant(JsonReader json, String[] names) {
        String text = text(json, "");
        for (int number = 0; number < names.length; number++) {
            if (text.equals(Integer.toString(number))) {
                return names[number];
            }
        }
        return text;
    }

    /** Reads a list without the parts that can't be read; null: it is no list. */
    private static <T> List<T> list(JsonReader json, Part<T> part) {
        int before = json.unknown();
        List<T> values = new ArrayList<>();
        if (!json.beginList()) {
            return json.unknown() == before ? values : null;
        }
        while (json.more()) {
            json.beginPart();
            before = json.unknown();
            T value = part.read(json);
            if (value == null) {
                json.setUnknown(before + 1);
            } else {
                values.add(value);
            }
        }
        return values;
    }

    private static <T> List<T> required(List<T> values) {
        if (values == null) {
            throw new IllegalArgumentException("no list");
        }
        return values;
    }
}
