package rebalancewatch;

import java.util.Collections;
import java.util.List;
import java.util.function.BooleanSupplier;

/**
 * Makes the events of the calls, as rebalance_model/observe/events/__init__.py defines them. All of it happens in the writer's
 * thread, in the order that {@link CallQueue} fixed.
 *
 * <p>{@code seq} is given here, not beside {@code time}: the groups of a heartbeat or of a lock are known only when its
 * body is parsed, which no RPC should wait for. Where the queue lost calls, every sequence skips one number, since a
 * lost body may have been of any group: so the gap shows for each.
 */
final class Telemetry {
    /** The decoder rejects an event with a higher time, offset or other number (rebalance_model/entities.py). */
    static final long TIME_MAX = 253_402_300_799_999L;
    static final long OFFSET_MAX = (1L << 48) - 1;
    private static final long NUMBER_MAX = (1L << 53) - 1;
    private static final List<Bodies.Subscription> NONE = Collections.emptyList();

    private final Settings settings;
    private final Spool spool;
    private final Losses losses;
    private final Sequences sequences = new Sequences();
    private final Sums sums = new Sums();
    private final Json json = new Json();

    Telemetry(Settings settings, Spool spool, Losses losses) {
        this.settings = settings;
        this.spool = spool;
        this.losses = losses;
    }

    /**
     * Makes the events of a batch's calls, and counts each call that makes none.
     *
     * @param isLate whether the JVM ends and can't wait for the rest
     */
    void tell(CallQueue.Batch batch, BooleanSupplier isLate) {
        String reason = Losses.WRITER_FAILED;
        int told = 0;
        try {
            for (Call call : batch.calls) {
                if (isLate.getAsBoolean()) {
                    reason = Losses.ENDED;
                    break;
                }
                tellAny(call);
                told++;
            }
        } finally {
            int rest = batch.calls.size() - told;
            if (rest > 0) {
                gap(reason, batch.calls.get(told).time, batch.until, rest);
            }
            if (batch.lost > 0) {
                gap(Losses.QUEUE_FULL, batch.lostFrom, batch.until, batch.lost);
            }
        }
    }

    private void tellAny(Call call) {
        try {
            tell(call);
        } catch (RuntimeException error) { // a field that is missing or wrong: it leaves no gap
            lost(Losses.UNREADABLE, call, 1);
        } catch (OutOfMemoryError error) {
            gap(Losses.WRITER_FAILED, call.time, call.time, 1);
        }
    }

    private void lost(String reason, Call call, int count) {
        if (count > 0) {
            losses.add(reason, call.time, call.time, count);
        }
    }

    /** Skips a number in every group's sequence: a lost call may have been of any group. */
    private void gap(String reason, long from, long to, long count) {
        sequences.skip();
        losses.add(reason, from, to, count);
    }

    void booted(long time) {
        begin("BROKER_STATUS", time, "").field("boot_time", settings.bootTime);
        end(time, "", false);
    }

    /** Reports that the clock was set, after all that is by the clock as it was set until then. */
    void clockSet(long until, long step) {
        report(until);
        begin("CLOCK_STEP", until + step, "").field("step", step);
        end(until + step, "", false);
    }

    /**
     * Emits a tick: everything before it has been sent.
     *
     * @param end nothing will follow
     */
    void tick(long time, boolean end) {
        report(time);
        begin("TICK", time, "");
        if (end) {
            json.field("end", true);
        }
        end(time, "", false);
    }

    /** Emits the sums, and the losses. */
    private void report(long time) {
        closed(sums.closeAll(), time);
        for (Losses.Loss loss : losses.tell()) {
            begin("TELEMETRY_LOST", time, "").field("from_time", loss.from).field("to_time", loss.to)
                .field("count", loss.count).field("reason", loss.reason);
            end(time, "", false);
        }
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
            case INVOKE_BROKER_TO_RESET_OFFSET:
                resetOffset(call);
                break;
            case POP_MESSAGE:
                pop(call);
                break;
            case ACK_MESSAGE:
                ack(call);
                break;
            case BATCH_ACK_MESSAGE:
                batchAck(call);
                break;
            case CHANGE_MESSAGE_INVISIBLETIME:
                changeInvisibleTime(call);
                break;
            case PROXY_HEART_BEAT:
                proxyHeartBeat(call);
                break;
            default:
                throw new IllegalStateException(call.kind.name());
        }
    }

    private void pull(Call call) {
        String group = Names.group(call.fields[0]);
        String topic = Names.name(call.fields[1]);
        long queueId = within(0, NUMBER_MAX, call.fields[2]);
        long offset = within(-1, OFFSET_MAX, call.fields[3]);
        boolean commits = (Long.parseLong(call.fields[4]) & 1) != 0; // PullSysFlag.FLAG_COMMIT_OFFSET
        long commitOffset = commits ? within(-1, OFFSET_MAX, call.fields[5]) : -1;
        sum(new PullSum(call, group, topic, queueId, offset, commitOffset, newest(call, offset)));
    }

    private void pop(Call call) {
        String group = Names.group(call.fields[0]);
        String topic = Names.name(call.fields[1]);
        long queueId = within(-1, Integer.MAX_VALUE, call.fields[2]); // -1: all queues of the broker
        long invisible = within(0, TIME_MAX, call.fields[3]);
        long poll = within(0, TIME_MAX, call.fields[4]);
        String expression = call.fields[6];
        boolean filtered = expression != null && !expression.isEmpty() && !expression.equals("*");
        sum(new PopSum(call, group, topic, queueId, invisible, poll, Boolean.parseBoolean(call.fields[5]), filtered));
    }

    private void ack(Call call) {
        String group = Names.group(call.fields[0]);
        String topic = Names.name(call.fields[1]);
        long queueId = within(0, NUMBER_MAX, call.fields[2]);
        long offset = within(0, OFFSET_MAX, call.fields[3]);
        Handle handle = Handle.of(call.fields[4], call.time);
        if (!isOfLiteTopic(call)) {
            sum(new AckSum(call, group, topic, queueId, handle, new OffsetRanges(offset, offset)));
        }
    }

    private void batchAck(Call call) {
        Bodies.Listed<Bodies.BatchAck> acks = Bodies.batchAcks(call.body, call.time);
        lost(Losses.UNREADABLE_FIELD, call, acks.unknown);
        for (Bodies.BatchAck one : acks.values) {
            sum(new AckSum(call, one.group, one.topic, one.queueId, one.handle, one.offsets()));
        }
    }

    private void changeInvisibleTime(Call call) {
        String group = Names.group(call.fields[0]);
        String topic = Names.name(call.fields[1]);
        long queueId = within(0, NUMBER_MAX, call.fields[2]);
        long offset = within(0, OFFSET_MAX, call.fields[3]);
        Handle handle = Handle.of(call.fields[4], call.time);
        long changed = within(0, TIME_MAX, call.fields[6]);
        if (isOfLiteTopic(call)) {
            return;
        }
        closed(sums.close(group, topic, queueId), call.time);
        begin(call, group).field("topic", topic).field("queue_id", queueId).field("offset", offset)
            .field("order", handle.order).field("pop_time", handle.popTime).field("invisible_ms", handle.invisible)
            .field("changed_ms", changed);
        end(call, group);
    }

    /** Whether a call is about one of the lite topics of 5.5, which all are in queue 0 of their parent topic. */
    private boolean isOfLiteTopic(Call call) {
        boolean lite = call.fields[5] != null && !call.fields[5].isEmpty();
        lost(Losses.LITE_TOPIC, call, lite ? 1 : 0);
        return lite;
    }

    private void sum(Sum one) {
        closed(sums.add(one), one.lastTime);
        if (sums.isFull()) {
            closed(sums.closeAll(), one.lastTime);
        }
    }

    private void offset(Call call) {
        String group = Names.group(call.fields[0]);
        String topic = Names.name(call.fields[1]);
        long queueId = within(0, NUMBER_MAX, call.fields[2]);
        boolean update = call.kind == Kind.UPDATE_CONSUMER_OFFSET;
        long offset = update ? within(-1, OFFSET_MAX, call.fields[3]) : -1;
        closed(sums.close(group, topic, queueId), call.time);
        begin(call, group).field("topic", topic).field("queue_id", queueId);
        if (update) {
            json.field("offset", offset);
            long newest = newest(call, offset);
            if (newest >= 0) {
                json.field("broker_offset", newest);
            }
        }
        end(call, group);
    }

    private void resetOffset(Call call) {
        String group = Names.group(call.fields[0]);
        String topic = Names.name(call.fields[1]);
        long queueId = call.fields[2] == null ? -1 : within(-1, Integer.MAX_VALUE, call.fields[2]); // 4.9: all queues
        begin(call, group).field("topic", topic).field("queue_id", queueId);
        end(call, group);
    }

    /** Returns the newest offset, unless it is below an offset of the call: then messages come from elsewhere. */
    private static long newest(Call call, long offset) {
        return call.newest >= offset && call.newest <= OFFSET_MAX ? call.newest : -1;
    }

    private void clockSeen(Call call) {
        if (call.fields[0] == null) {
            return; // not a collector's question
        }
        String collector = Names.name(call.fields[0]);
        long asked = within(0, TIME_MAX, call.fields[1]);
        begin("CLOCK_SEEN", call.time, "").field("collector", collector).field("asked", asked)
            .field("seen", call.begunAt);
        end(call, "");
    }

    private void heartBeat(Call call) {
        Bodies.Heartbeat beat = Bodies.heartbeat(call.body);
        lost(Losses.LARGE_HEARTBEAT, call, beat.beyond);
        if (beat.clientId == null) {
            lost(Losses.UNREADABLE, call, Math.max(1, beat.consumers.size() + beat.unreadable));
            return;
        }
        lost(Losses.UNREADABLE, call, beat.unreadable);
        lost(Losses.UNREADABLE_FIELD, call, beat.unknown);
        for (Bodies.Consumer consumer : beat.consumers) {
            heartBeat(call, beat, consumer);
        }
    }

    private void heartBeat(Call call, Bodies.Heartbeat beat, Bodies.Consumer consumer) {
        if (call.isRefused() && !sequences.has(consumer.group)) {
            return; // anybody may invent groups, and each begins a sequence; a refused heartbeat shows nothing else
        }
        boolean unknown = consumer.subscriptions == null;
        begin(call, consumer.group).field("client_id", beat.clientId).field("language", Names.notLong(call.language))
            .field("version", call.version).field("consume_type", consumer.consumeType)
            .field("message_model", consumer.messageModel).field("consume_from_where", consumer.consumeFromWhere)
            .field("without_sub", beat.withoutSub || unknown).field("heartbeat_fingerprint", beat.fingerprint);
        subscriptions(unknown ? NONE : consumer.subscriptions);
        end(call, consumer.group);
    }

    private void proxyHeartBeat(Call call) {
        Bodies.ProxyHeartbeat beat = Bodies.proxyHeartbeat(call.body);
        String group = Names.group(beat.group);
        String clientId = Names.name(beat.clientId);
        lost(Losses.UNREADABLE_FIELD, call, beat.unknown);
        if (call.isRefused() && !sequences.has(group)) {
            return;
        }
        begin(call, group).field("client_id", clientId).field("proxy", beat.proxy).field("registers", beat.registers())
            .field("language", beat.language).field("version", beat.version).field("consume_type", beat.consumeType)
            .field("message_model", beat.messageModel);
        subscriptions(beat.subscriptions == null ? NONE : beat.subscriptions);
        end(call, group);
    }

    private void subscriptions(List<Bodies.Subscription> subscriptions) {
        json.openList("subscriptions");
        for (Bodies.Subscription one : subscriptions) {
            json.openObject().field("topic", one.topic).field("sub_string", one.subString)
                .field("expression_type", one.expressionType).field("sub_version", one.version).closeObject();
        }
        json.closeList();
    }

    private void unregister(Call call) {
        if (call.fields[0] == null) {
            return; // a producer's
        }
        String group = Names.group(call.fields[0]);
        begin(call, group).field("client_id", Names.name(call.fields[1]));
        end(call, group);
    }

    private void consumerList(Call call) {
        String group = Names.group(call.fields[0]);
        Bodies.Listed<String> ids = Bodies.clientIds(call.answer);
        lost(Losses.UNREADABLE_FIELD, call, ids.unknown);
        begin(call, group).field("asked", call.begunAt).field("consumer_ids", ids.values);
        end(call, group);
    }

    private void locks(Call call) {
        Bodies.LockRequest asked = Bodies.lockRequest(call.body);
        String group = Names.group(asked.group);
        String clientId = Names.name(asked.clientId);
        boolean lock = call.kind == Kind.LOCK_BATCH_MQ;
        if (!lock && asked.onlyThisBroker) {
            return; // lockInStrictMode: a broker forwards a client's call to every replica, itself included
        }
        Bodies.Listed<Bodies.Queue> granted = Bodies.locked(lock ? call.answer : null);
        if (granted.unknown > asked.unknown || asked.queues.isEmpty() && asked.unknown > 0) {
            throw new IllegalArgumentException("which queues are granted is unknown");
        }
        lost(Losses.UNREADABLE_FIELD, call, asked.unknown);
        for (Bodies.Queue queue : asked.queues) {
            closed(sums.close(group, queue.topic, queue.id), call.time);
        }
        begin(call, group).field("client_id", clientId);
        if (lock) {
            json.field("only_this_broker", asked.onlyThisBroker);
        }
        queues(lock ? "requested" : "queues", asked.queues);
        if (lock) {
            queues("granted", granted.values);
        }
        end(call, group);
    }

    private void queues(String name, List<Bodies.Queue> queues) {
        json.openList(name);
        for (Bodies.Queue queue : queues) {
            json.openObject().field("topic", queue.topic).field("broker", queue.broker).field("queue_id", queue.id)
                .closeObject();
        }
        json.closeList();
    }

    private void closed(List<Sum> sums, long time) {
        for (Sum sum : sums) {
            begin(sum.kind().name(), time, sum.group).field("channel", sum.channel).field("topic", sum.topic)
                .field("queue_id", sum.queueId).field("first_time", sum.firstTime).field("last_time", sum.lastTime);
            sum.write(json);
            if (sum.code != null) {
                json.field("code", sum.code);
            }
            end(time, sum.group, !Call.isRefusal(sum.code) && !sum.kind().acceptsAnyGroup());
        }
    }

    private Json begin(Call call, String group) {
        begin(call.kind.name(), call.time, group).field("channel", Names.notLong(call.channel));
        return call.code == null ? json : json.field("code", call.code);
    }

    private Json begin(String type, long time, String group) {
        json.begin().field("type", type).field("time", time).field("cluster", settings.cluster)
            .field("broker", settings.broker).field("broker_id", settings.brokerId).field("source", "hook")
            .field("source_id", settings.sourceId);
        return group.isEmpty() ? json : json.field("group", group);
    }

    private void end(Call call, String group) {
        end(call.time, group, call.showsGroup());
    }

    /** Completes the event: it gets its number last, so that an event that could not be made leaves no gap. */
    private void end(long time, String group, boolean exists) {
        json.field("seq", sequences.next(group, exists));
        if (json.end()) {
            spool.append(json, time);
        } else {
            losses.add(Losses.TOO_LARGE, time, time, 1);
        }
    }

    private static long within(long least, long most, String value) {
        return within(least, most, Long.parseLong(value));
    }

    static long within(long least, long most, long number) {
        if (number < least || number > most) {
            throw new IllegalArgumentException(number + " is not between " + least + " and " + most);
        }
        return number;
    }
}
