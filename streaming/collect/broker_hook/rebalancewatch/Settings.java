package rebalancewatch;

import java.io.InputStream;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The system properties {@code rebalance.watch.*}. The broker's identity is read from its own configuration file; with
 * DLedger or a controller, or in a BrokerContainer, that file does not contain it: set cluster, broker and brokerId
 * then.
 */
final class Settings {
    private static final String PREFIX = "rebalance.watch.";
    /** The broker's option for its configuration file (BrokerStartup), up to the next option. */
    private static final Pattern CONFIG_FILE = Pattern.compile(" --?c(?:onfigFile)?[ =](.+?)(?= -[a-z]( |$)|$)");
    private static final AtomicLong LAST_BOOT = new AtomicLong();

    final Path spool;
    final String cluster;
    final String broker;
    final long brokerId;
    final String sourceId;
    /** The name of this incarnation's folder, and the common prefix for all incarnations of this broker. */
    final String folder;
    final String folderPrefix;
    final long bootTime;
    /** The topic in which proxies copy the heartbeats of their clients to each other. */
    final String heartbeatSyncerTopic;
    final int queueCapacity;
    final long queueBytes;
    final long fileBytes;
    final long fileNanos;
    final long diskBytes;

    private Settings(Path spool) {
        Properties config = brokerConfig();
        this.spool = spool;
        this.cluster = text("cluster", config.getProperty("brokerClusterName", "DefaultCluster"));
        this.broker = text("broker", config.getProperty("brokerName", hostName()));
        boolean slave = "SLAVE".equals(config.getProperty("brokerRole", "").trim());
        this.brokerId = number("brokerId", slave ? id(config.getProperty("brokerId")) : 0, 0, Long.MAX_VALUE);
        this.bootTime = LAST_BOOT.updateAndGet(last -> Math.max(last + 1, System.currentTimeMillis()));
        String instance = "hook-" + broker + (brokerId == 0 ? "" : "-" + brokerId) + "@";
        this.sourceId = instance + bootTime;
        this.folder = encoded(sourceId);
        this.folderPrefix = encoded(instance);
        this.heartbeatSyncerTopic = text("heartbeatSyncerTopic", "DefaultHeartBeatSyncerTopic");
        this.queueCapacity = (int) number("queueCapacity", 50_000, 100, 10_000_000);
        this.queueBytes = number("queueBytes", 32L << 20, 1 << 16, 1L << 40);
        this.fileBytes = number("fileBytes", 8L << 20, 1 << 10, 1L << 40);
        this.fileNanos = TimeUnit.SECONDS.toNanos(number("fileSeconds", 10, 1, 86_400));
        this.diskBytes = number("diskBytes", 1L << 30, 1 << 10, Long.MAX_VALUE / 2);
    }

    /** Returns the settings; null: the hook is off. */
    static Settings read() {
        String spool = System.getProperty(PREFIX + "spool", "").trim();
        return spool.isEmpty() ? null : new Settings(Paths.get(spool).toAbsolutePath());
    }

    private static String text(String name, String otherwise) {
        String value = System.getProperty(PREFIX + name, "").trim();
        return value.isEmpty() ? otherwise.trim() : value;
    }

    private static long number(String name, long otherwise, long least, long most) {
        String value = System.getProperty(PREFIX + name, "").trim();
        if (value.isEmpty()) {
            return otherwise;
        }
        try {
            long number = Long.parseLong(value);
            if (least <= number && number <= most) {
                return number;
            }
        } catch (NumberFormatException error) {
            // reported below
        }
        Log.say(PREFIX + name + " must be a whole number from " + least + " to " + most + ", it is " + value + ": "
            + otherwise + " is used");
        return otherwise;
    }

    private static long id(String value) {
        try {
            return Math.max(0, Long.parseLong(String.valueOf(value).trim()));
        } catch (NumberFormatException error) {
            return 0;
        }
    }

    private static Properties brokerConfig() {
        Properties config = new Properties();
        Matcher option = CONFIG_FILE.matcher(System.getProperty("sun.java.command", ""));
        if (option.find()) {
            try (InputStream file = Files.newInputStream(Paths.get(option.group(1).trim()))) {
                config.load(file);
            } catch (Exception error) {
                Log.say("the broker's configuration can't be read (" + error + "): set " + PREFIX + "cluster, "
                    + PREFIX + "broker and " + PREFIX + "brokerId");
            }
        }
        return config;
    }

    /** BrokerConfig's default for brokerName. */
    private static String hostName() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException error) {
            return "DEFAULT_BROKER";
        }
    }

    /** Encodes bytes outside of [A-Za-z0-9._@-] as %XX: a valid file name that can be decoded. */
    private static String encoded(String name) {
        StringBuilder text = new StringBuilder();
        for (byte one : name.getBytes(StandardCharsets.UTF_8)) {
            char c = (char) (one & 0xFF);
            boolean plain = c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
                || "._@-".indexOf(c) >= 0;
            text.append(plain ? String.valueOf(c) : String.format(Locale.ROOT, "%%%02X", (int) c));
        }
        return text.toString();
    }
}
