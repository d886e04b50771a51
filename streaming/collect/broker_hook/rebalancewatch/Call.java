package rebalancewatch;

import java.util.Map;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * One RPC as observed by the hook: references to the event's inputs, so that the rest of the command can be freed.
 * The commands themselves are not kept: the broker may still change them.
 */
final class Call {
    /** Memory of a call beside its texts and bodies, in bytes: this object, its array, its place in a list. */
    private static final int BYTES = 160;
    private static final int BYTES_A_FIELD = 64;
    private static final int SUCCESS = 0;
    /** In place of a larger body, which is not kept; no body can be read from it. */
    private static final byte[] TOO_LARGE = {'?'};

    final Kind kind;
    final String channel;
    /** The fields of {@link Kind#fields}, in that order; null if the request lacks one. */
    final String[] fields;
    /** The response code; null if the broker answers later. */
    final Integer code;
    final byte[] body;
    final byte[] answer;
    final String language;
    final int version;
    /** When its processing began: {@link System#nanoTime}; 0: unknown. */
    final long begun;
    /** The newest offset of its queue when it was done; -1: unknown. */
    final long newest;
    /** Approximate memory in bytes. */
    final int bytes;
    /** When it was done, epoch ms; set by {@link CallQueue}. */
    long time;
    /** When its processing began, epoch ms; 0: unknown; set by {@link CallQueue}. */
    long begunAt;

    Call(Kind kind, String channel, RemotingCommand request, RemotingCommand response, Long begun,
        NewestOffsets newest) {
        this.kind = kind;
        this.channel = channel == null ? "" : channel;
        this.fields = new String[kind.fields.length];
        Map<String, String> header = request.getExtFields();
        for (int i = 0; header != null && i < fields.length; i++) {
            fields[i] = kept(header.get(kind.fields[i]));
        }
        this.code = response == null ? null : Integer.valueOf(response.getCode());
        this.body = kind.hasBodies() ? kept(request.getBody(), kind) : null;
        this.answer = kind.hasBodies() && response != null ? kept(response.getBody(), kind) : null;
        this.language = String.valueOf(request.getLanguage());
        this.version = request.getVersion();
        this.begun = begun == null ? 0 : begun;
        this.newest = kind.isOfQueue() ? newest.of(fields[1], fields[2]) : -1;
        this.bytes = weight();
    }

    /** Whether the broker has answered with an error, as when the client has no permission. */
    boolean isRefused() {
        return isRefusal(code);
    }

    /** Whether the call shows that its group exists; anybody may name any other one. */
    boolean showsGroup() {
        return !isRefused() && !kind.acceptsAnyGroup();
    }

    static boolean isRefusal(Integer code) {
        return code != null && code != SUCCESS;
    }

    private static byte[] kept(byte[] body, Kind kind) {
        return body == null || body.length <= kind.bodyBytesMax() ? body : TOO_LARGE;
    }

    /** Returns enough of a field to show that it is too long. */
    private static String kept(String field) {
        int most = Limits.NAME_CHARACTERS + 1;
        return field == null || field.length() <= most ? field : field.substring(0, most);
    }

    private int weight() {
        long sum = BYTES + (body == null ? 0 : body.length) + (answer == null ? 0 : answer.length);
        for (String field : fields) {
            sum += BYTES_A_FIELD + (field == null ? 0 : 2L * field.length());
        }
        return (int) Math.min(sum, Integer.MAX_VALUE);
    }
}
