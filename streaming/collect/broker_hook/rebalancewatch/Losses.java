package rebalancewatch;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Losses that have not been reported yet: one entry for each reason, of which there are few. */
final class Losses {
    static final String QUEUE_FULL = "queue full";
    static final String DISK_FULL = "disk full";
    static final String SPOOL_FAILED = "spool can't be written";
    static final String WRITER_FAILED = "writer failed";
    static final String UNREADABLE = "unreadable request";
    static final String UNREADABLE_FIELD = "unreadable field";
    static final String ENDED = "broker ended";
    static final String TOO_LARGE = "event too large";
    static final String LITE_TOPIC = "lite topic";
    static final String LARGE_HEARTBEAT = "too many groups in a heartbeat";

    static final class Loss {
        final String reason;
        long from;
        long to;
        long count;

        private Loss(String reason, long from, long to) {
            this.reason = reason;
            this.from = from;
            this.to = to;
        }
    }

    private final Map<String, Loss> open = new LinkedHashMap<>();
    /** Reported in lines that are not on disk yet. */
    private final List<Loss> reported = new ArrayList<>();

    void add(String reason, long from, long to, long count) {
        Loss loss = open.computeIfAbsent(reason, missing -> new Loss(reason, from, to));
        loss.from = Math.min(loss.from, from);
        loss.to = Math.max(loss.to, to);
        loss.count += count;
    }

    /** Returns the losses to report now. */
    List<Loss> tell() {
        List<Loss> now = new ArrayList<>(open.values());
        reported.addAll(now);
        open.clear();
        return now;
    }

    /** Forgets the reported losses, whose lines are on disk. */
    void written() {
        reported.clear();
    }

    /** Reports the losses again, because their lines are lost. */
    void notWritten() {
        for (Loss loss : reported) {
            add(loss.reason, loss.from, loss.to, loss.count);
        }
        reported.clear();
    }
}
