package rebalancewatch;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The last number of each group's sequence, and of that of the events without a group.
 *
 * <p>Beyond {@link Limits#GROUPS} the least recently heard group is forgotten; first one of those that only calls
 * have named which the broker refused, or accepts for any group, since anybody may invent these. A group whose sequence is not kept begins above every number that
 * was forgotten or lost: so no event of it looks like a copy of an earlier one, and unless it follows its last one
 * directly, its readers see a gap.
 */
final class Sequences {
    private final Map<String, long[]> heard = new LinkedHashMap<>(16, 0.75f, true);
    /** The groups that only such calls have named. */
    private final Map<String, long[]> named = new LinkedHashMap<>(16, 0.75f, true);
    private long ofNoGroup;
    /** No group that is not kept has a higher number. */
    private long floor;

    boolean has(String group) {
        return heard.containsKey(group) || named.containsKey(group);
    }

    /**
     * Returns the next number of a group.
     *
     * @param group empty: of the events without a group
     * @param exists whether the call shows that the group exists
     */
    long next(String group, boolean exists) {
        if (group.isEmpty()) {
            return ++ofNoGroup;
        }
        long[] last = heard.get(group);
        if (last == null) {
            last = begun(group, exists);
        }
        return ++last[0];
    }

    /** Skips a number in every sequence: a lost call may have been of any group. */
    void skip() {
        heard.values().forEach(last -> last[0]++);
        named.values().forEach(last -> last[0]++);
        ofNoGroup++;
        floor++;
    }

    private long[] begun(String group, boolean exists) {
        long[] last = named.get(group);
        if (last == null) {
            if (heard.size() + named.size() >= Limits.GROUPS) {
                forgetOne(named.isEmpty() ? heard : named);
            }
            last = new long[] {floor};
        } else if (exists) {
            named.remove(group);
        }
        (exists ? heard : named).put(group, last);
        return last;
    }

    private void forgetOne(Map<String, long[]> groups) {
        Iterator<long[]> eldest = groups.values().iterator();
        floor = Math.max(floor, eldest.next()[0]);
        eldest.remove();
    }
}
