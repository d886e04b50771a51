package rebalancewatch;

import java.util.Map;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * One RPC as the hook saw it: references to what the event will be made of, so that the rest of the command can go.
 * The commands themselves are not kept: the broker may still change them.
 */
final class Call {
    /** What a call weighs beside its texts and bodies: this object, its array, its place in a list. */
    private static final int BYTES = 160;
    private static final int BYTES_A_FIELD = 64;

    final Kind kind;
    final String channel;
    /** Those of {@link Kind#fields}, in that order; null where the request has none. */
    final String[] fields;
    /** The answer's code; null where the broker answers later. */
    final Integer code;
    final byte[] body;
    final byte[] answer;
    final String language;
    final int version;
    /** When the broker began with it: epoch ms, or {@link System#nanoTime} where {@link Kind#overtaken}; 0: not known. */
    final long begun;
    /** The newest offset of its queue when it was done, or -1: not known. */
    final long newest;
    /** About how much memory it holds. */
    final int bytes;
    /** When it was done; given by {@link CallQueue}. */
    long time;

    Call(Kind kind, String channel, RemotingCommand request, RemotingCommand response, Long begun,
        NewestOffsets newest) {
        this.kind = kind;
        this.channel = channel;
        this.fields = new String[kind.fields.length];
        Map<String, String> header = request.getExtFields();
        for (int i = 0; header != null && i < fields.length; i++) {
            fields[i] = header.get(kind.fields[i]);
        }
        this.code = response == null ? null : Integer.valueOf(response.getCode());
        this.body = kind.hasBodies() ? request.getBody() : null;
        this.answer = kind.hasBodies() && response != null ? response.getBody() : null;
        this.language = String.valueOf(request.getLanguage());
        this.version = request.getVersion();
        this.begun = begun == null ? 0 : begun;
        this.newest = kind.isOfQueue() ? newest.of(fields[1], fields[2]) : -1;
        this.bytes = weight();
    }

    private int weight() {
        long sum = BYTES + (body == null ? 0 : body.length) + (answer == null ? 0 : answer.length);
        for (String field : fields) {
            sum += BYTES_A_FIELD + (field == null ? 0 : 2L * field.length());
        }
        return (int) Math.min(sum, Integer.MAX_VALUE);
    }
}
