package rebalancewatch;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Makes the events of the calls, as rebalance_model/observe/events.py defines them. All of it happens in the writer's
 * thread, in the order that {@link CallQueue} fixed.
 *
 * <p>{@code seq} is given here, not beside {@code time}: the groups of a heartbeat or of a lock are known only when its
 * body is parsed, which no RPC should wait for. Where the queue lost calls, every sequence skips one number, since a
 * lost body may have been of any group: so the gap shows for each.
 */
final class Telemetry {
    /** Sequences are never dropped, since a group would seem to restart; further groups are not reported. */
    static final int GROUPS_MAX = 50_000;
    /** RocketMQ's own limit (Validators.CHARACTER_MAX_LENGTH) for a group; a longer name is not a group. */
    private static final int GROUP_LENGTH_MAX = 255;
    /** The decoder rejects an event with a longer name (rebalance_model/entities.py, NAME_CHARACTERS_MAX). */
    private static final int NAME_LENGTH_MAX = 1_000;
    /** The decoder rejects an event with a higher time, offset or other number (rebalance_model/entities.py). */
    private static final long TIME_MAX = 253_402_300_799_999L;
    private static final long OFFSET_MAX = (1L << 48) - 1;
    private static final long NUMBER_MAX = (1L << 53) - 1;
    /**
     * The groups of one heartbeat that are reported. Each makes an event that repeats the client's id: without limits
     * a heartbeat of 1 MB would make 1 GB of events.
     */
    private static final int HEARTBEAT_GROUPS_MAX = 1_000;
    /** The decoder rejects a larger event (rebalance_model/observe/decoding.py). */
    private static final int LINE_BYTES_MAX = 1_000_000;

    private final Settings settings;
    private final Spool spool;
    private final Losses losses;
    private final Map<String, Long> sequences = new HashMap<>();
    private final PullSums pulls = new PullSums();
    private final Json json = new Json();

    Telemetry(Settings settings, Spool spool, Losses losses) {
        this.settings = settings;
        this.spool = spool;
        this.losses = losses;
        sequences.put("", 0L);
    }

    void tell(CallQueue.Batch batch) {
        for (Call call : batch.calls) {
            try {
                tell(call);
            } catch (RuntimeException | StackOverflowError error) { // fastjson's, or a field that is missing or wrong
                losses.add(Losses.UNREADABLE, call.time, call.time, 1);
            }
        }
        if (batch.lost > 0) {
            gap(Losses.QUEUE_FULL, batch.lostFrom, batch.until, batch.lost);
        }
    }

    /** Skips a number in every group's sequence: a lost call may have been of any group. */
    void gap(String reason, long from, long to, long count) {
        sequences.replaceAll((group, seq) -> seq + 1);
        losses.add(reason, from, to, count);
    }

    void booted(long time) {
        begin("BROKER_STATUS", time, "").field("boot_time", settings.bootTime);
        end(time, "");
    }

    /**
     * Emits a tick: everything before it has been sent.
     *
     * @param end nothing will follow
     */
    void tick(long time, boolean end) {
        closed(pulls.closeAll(), time);
        for (Losses.Loss loss : losses.tell()) {
            begin("TELEMETRY_LOST", time, "").field("from_time", loss.from).field("to_time", loss.to)
                .field("count", loss.count).field("reason", loss.reason);
            end(time, "");
        }
        begin("TICK", time, "");
        if (end) {
            json.field("end", true);
        }
        end(time, "");
    }

    private void tell(Call call) {
        switch (call.kind) {
            case PULL_MESSAGE:
                pull(call);
                break;
            case QUERY_CONSUMER_OFFSET:
            case UPDATE_CONSUMER_OFFSET:
                offset(call);
                break;
            case CLOCK_SEEN:
                clockSeen(call);
                break;
            case HEART_BEAT:
                heartBeat(call);
                break;
            case UNREGISTER_CLIENT:
                unregister(call);
                break;
            case GET_CONSUMER_LIST_BY_GROUP:
                consumerList(call);
                break;
            case LOCK_BATCH_MQ:
            case UNLOCK_BATCH_MQ:
                locks(call);
                break;
            default:
                throw new IllegalStateException(call.kind.name());
        }
    }

    private void pull(Call call) {
        String group = group(call.fields[0]);
        String topic = name(call.fields[1]);
        long queueId = within(0, NUMBER_MAX, call.fields[2]);
        long offset = within(-1, OFFSET_MAX, call.fields[3]);
        boolean commits = (Long.parseLong(call.fields[4]) & 1) != 0; // PullSysFlag.FLAG_COMMIT_OFFSET
        long commitOffset = commits ? within(-1, OFFSET_MAX, call.fields[5]) : -1;
        notLong(call.channel); // it is written later, among others of a second
        closed(pulls.add(call, group, topic, queueId, offset, commitOffset, newest(call, offset)), call.time);
        if (pulls.isFull()) {
            closed(pulls.closeAll(), call.time);
        }
    }

    private void offset(Call call) {
        String group = group(call.fields[0]);
        String topic = name(call.fields[1]);
        long queueId = within(0, NUMBER_MAX, call.fields[2]);
        boolean update = call.kind == Kind.UPDATE_CONSUMER_OFFSET;
        long offset = update ? within(-1, OFFSET_MAX, call.fields[3]) : -1;
        closed(pulls.close(group, topic, queueId), call.time);
        begin(call, group).field("topic", topic).field("queue_id", queueId);
        if (update) {
            json.field("offset", offset);
            brokerOffset(newest(call, offset));
        }
        end(call.time, group);
    }

    /** Returns the newest offset, unless it is below an offset of the call: then messages come from elsewhere. */
    private static long newest(Call call, long offset) {
        return call.newest >= offset && call.newest <= OFFSET_MAX ? call.newest : -1;
    }

    private void brokerOffset(long newest) {
        if (newest >= 0) {
            json.field("broker_offset", newest);
        }
    }

    private void clockSeen(Call call) {
        if (call.fields[0] == null) {
            return; // not a collector's question
        }
        String collector = name(call.fields[0]);
        long asked = within(0, TIME_MAX, call.fields[1]);
        begin("CLOCK_SEEN", call.time, "").field("collector", collector).field("asked", asked)
            .field("seen", call.begun);
        end(call.time, "");
    }

    private void heartBeat(Call call) {
        Body body = Body.of(call.body);
        name(body.text("clientID"));
        List<Body> consumers = body.objects("consumerDataSet");
        int reported = Math.min(consumers.size(), HEARTBEAT_GROUPS_MAX);
        if (reported < consumers.size()) {
            losses.add(Losses.LARGE_HEARTBEAT, call.time, call.time, consumers.size() - reported);
        }
        for (Body consumer : consumers.subList(0, reported)) {
            heartBeat(call, body, consumer);
        }
    }

    private void heartBeat(Call call, Body body, Body consumer) {
        String group = group(consumer.text("groupName"));
        if (call.isRefused() && !sequences.containsKey(group)) {
            return; // anybody may invent groups, and each begins a sequence; a refused heartbeat shows nothing else
        }
        begin(call, group).field("client_id", body.text("clientID")).field("language", notLong(call.language))
            .field("version", call.version).field("consume_type", notLong(consumer.text("consumeType")))
            .field("message_model", notLong(consumer.text("messageModel")))
            .field("consume_from_where", notLong(consumer.text("consumeFromWhere", "")))
            .field("without_sub", body.flag("withoutSub"))
            .field("heartbeat_fingerprint", Math.toIntExact(body.number("heartbeatFingerprint", 0)))
            .openList("subscriptions");
        for (Body one : consumer.objects("subscriptionDataSet")) {
            json.openObject().field("topic", name(one.text("topic"))).field("sub_string", one.text("subString", ""))
                .field("expression_type", notLong(one.text("expressionType", "TAG")))
                .field("sub_version", within(0, NUMBER_MAX, Math.max(0, one.number("subVersion", 0)))).closeObject();
        }
        json.closeList();
        end(call.time, group);
    }

    private void unregister(Call call) {
        if (call.fields[0] == null) {
            return; // a producer's
        }
        String group = group(call.fields[0]);
        begin(call, group).field("client_id", name(call.fields[1]));
        end(call.time, group);
    }

    private void consumerList(Call call) {
        String group = group(call.fields[0]);
        List<String> ids = Body.of(call.answer).texts("consumerIdList");
        ids.forEach(Telemetry::notLong);
        begin(call, group).field("asked", call.begun).field("consumer_ids", ids);
        end(call.time, group);
    }

    private void locks(Call call) {
        Body body = Body.of(call.body);
        String group = group(body.text("consumerGroup"));
        String clientId = name(body.text("clientId"));
        List<Body> asked = body.objects("mqSet");
        boolean lock = call.kind == Kind.LOCK_BATCH_MQ;
        if (!lock && body.flag("onlyThisBroker")) {
            return; // lockInStrictMode: a broker forwards a client's call to every replica, itself included
        }
        List<Body> granted = lock ? Body.of(call.answer).objects("lockOKMQSet") : new ArrayList<>();
        for (Body queue : asked) {
            closed(pulls.close(group, queue.text("topic"), queue.number("queueId", 0)), call.time);
        }
        begin(call, group).field("client_id", clientId);
        if (lock) {
            json.field("only_this_broker", body.flag("onlyThisBroker"));
        }
        queues(lock ? "requested" : "queues", asked);
        if (lock) {
            queues("granted", granted);
        }
        end(call.time, group);
    }

    private void queues(String name, List<Body> queues) {
        json.openList(name);
        for (Body queue : queues) {
            json.openObject().field("topic", name(queue.text("topic"))).field("broker", name(queue.text("brokerName")))
                .field("queue_id", within(0, NUMBER_MAX, queue.text("queueId"))).closeObject();
        }
        json.closeList();
    }

    private void closed(List<PullSums.Sum> sums, long time) {
        for (PullSums.Sum sum : sums) {
            begin("PULL_MESSAGE", time, sum.group).field("channel", sum.channel).field("topic", sum.topic)
                .field("queue_id", sum.queueId).field("first_time", sum.firstTime).field("last_time", sum.lastTime)
                .field("first_offset", sum.firstOffset).field("last_offset", sum.lastOffset)
                .field("commit_offset", sum.commitOffset).field("count", sum.count);
            brokerOffset(sum.brokerOffset);
            if (sum.code != null) {
                json.field("code", sum.code);
            }
            end(time, sum.group);
        }
    }

    private Json begin(Call call, String group) {
        begin(call.kind.name(), call.time, group).field("channel", notLong(call.channel));
        return call.code == null ? json : json.field("code", call.code);
    }

    private Json begin(String type, long time, String group) {
        json.begin().field("type", type).field("time", time).field("cluster", settings.cluster)
            .field("broker", settings.broker).field("broker_id", settings.brokerId).field("source", "hook")
            .field("source_id", settings.sourceId);
        return group.isEmpty() ? json : json.field("group", group);
    }

    /** Completes the event: it gets its number last, so that an event that could not be made leaves no gap. */
    private void end(long time, String group) {
        Long before = sequences.get(group);
        if (before == null && sequences.size() > GROUPS_MAX) {
            losses.add(Losses.TOO_MANY_GROUPS, time, time, 1);
            return;
        }
        long seq = before == null ? 1 : before + 1;
        sequences.put(group, seq);
        byte[] line = json.field("seq", seq).end();
        if (line.length > LINE_BYTES_MAX) {
            losses.add(Losses.TOO_LARGE, time, time, 1);
        } else {
            spool.append(line, time);
        }
    }

    private static String group(String name) {
        return atMost(GROUP_LENGTH_MAX, name);
    }

    private static String name(String name) {
        return atMost(NAME_LENGTH_MAX, name);
    }

    private static String atMost(int length, String name) {
        if (present(name).length() > length) {
            throw new IllegalArgumentException("a name of " + name.length() + " characters");
        }
        return name;
    }

    private static String notLong(String text) {
        return text == null || text.isEmpty() ? text : name(text);
    }

    private static String present(String value) {
        if (value == null || value.isEmpty()) {
            throw new IllegalArgumentException("a field is missing");
        }
        return value;
    }

    private static long within(long least, long most, String value) {
        return within(least, most, Long.parseLong(value));
    }

    private static long within(long least, long most, long number) {
        if (number < least || number > most) {
            throw new IllegalArgumentException(number + " is not between " + least + " and " + most);
        }
        return number;
    }
}
