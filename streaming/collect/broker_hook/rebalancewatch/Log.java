package rebalancewatch;

/** Writes one line to stderr: the loggers of 4.9 and 5.x are in different packages. */
final class Log {
    private Log() {
    }

    static void say(String line) {
        System.err.println("rebalance-watch hook: " + line);
    }
}
