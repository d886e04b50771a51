package rebalancewatch;

import java.util.Arrays;

/**
 * Writes one JSON object as a line of UTF-8; reused by the writer's thread. The bytes are counted while it is built:
 * what exceeds {@link Limits#EVENT_BYTES} is not written, so no event needs more memory than that.
 */
final class Json {
    /** Bytes of the longest character: an escape. */
    private static final int CHARACTER_BYTES = 6;
    private static final int BUFFER_BYTES_MAX = Limits.EVENT_BYTES + CHARACTER_BYTES;
    private static final byte[] HEX = {'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};

    private byte[] bytes = new byte[1024];
    private int size;
    private boolean full;
    private final byte[] digits = new byte[20];

    Json begin() {
        size = 0;
        full = false;
        put('{');
        return this;
    }

    /** Ends the line; false if it is larger than an event may be. */
    boolean end() {
        put('}');
        put('\n');
        return !full && size <= Limits.EVENT_BYTES;
    }

    /** The line, in the first {@link #size} bytes; valid until the next one begins. */
    byte[] bytes() {
        return bytes;
    }

    int size() {
        return size;
    }

    Json field(String name, String value) {
        name(name);
        if (value == null) {
            plain("null");
        } else {
            string(value);
        }
        return this;
    }

    Json field(String name, long value) {
        name(name);
        number(value);
        return this;
    }

    Json field(String name, boolean value) {
        name(name);
        plain(value ? "true" : "false");
        return this;
    }

    /** A list of texts. */
    Json field(String name, Iterable<String> values) {
        openList(name);
        for (String value : values) {
            comma();
            string(value);
        }
        return closeList();
    }

    /** A list of two numbers, in a list. */
    Json pair(long first, long second) {
        comma();
        put('[');
        number(first);
        put(',');
        number(second);
        put(']');
        return this;
    }

    Json openList(String name) {
        name(name);
        put('[');
        return this;
    }

    Json closeList() {
        put(']');
        return this;
    }

    Json openObject() {
        comma();
        put('{');
        return this;
    }

    Json closeObject() {
        put('}');
        return this;
    }

    private void name(String name) {
        comma();
        put('"');
        plain(name);
        put('"');
        put(':');
    }

    private void comma() {
        byte before = bytes[size - 1];
        if (before != '{' && before != '[') {
            put(',');
        }
    }

    private void plain(String ascii) {
        for (int i = 0; i < ascii.length(); i++) {
            put(ascii.charAt(i));
        }
    }

    private void number(long value) {
        int from = digits.length;
        long rest = value;
        do {
            digits[--from] = HEX[(int) Math.abs(rest % 10)];
            rest /= 10;
        } while (rest != 0);
        if (value < 0) {
            digits[--from] = '-';
        }
        for (; from < digits.length; from++) {
            put(digits[from]);
        }
    }

    private void string(String value) {
        put('"');
        for (int i = 0; i < value.length() && !full; i++) {
            char c = value.charAt(i);
            if (c >= ' ' && c < 0x80 && c != '"' && c != '\\') {
                put(c);
            } else if (Character.isHighSurrogate(c) && i + 1 < value.length()
                && Character.isLowSurrogate(value.charAt(i + 1))) {
                codePoint(Character.toCodePoint(c, value.charAt(++i)));
            } else {
                escaped(Character.isSurrogate(c) ? '\ufffd' : c);
            }
        }
        put('"');
    }

    private void escaped(char c) {
        if (c == '"' || c == '\\') {
            put('\\');
            put(c);
        } else if (c < ' ') {
            plain("\\u00");
            put(HEX[c >> 4]);
            put(HEX[c & 15]);
        } else {
            codePoint(c);
        }
    }

    /** Writes a character that is not of ASCII. */
    private void codePoint(int c) {
        if (c < 0x800) {
            put(0xC0 | c >> 6);
        } else if (c < 0x10000) {
            put(0xE0 | c >> 12);
            put(0x80 | c >> 6 & 0x3F);
        } else {
            put(0xF0 | c >> 18);
            put(0x80 | c >> 12 & 0x3F);
            put(0x80 | c >> 6 & 0x3F);
        }
        put(0x80 | c & 0x3F);
    }

    private void put(int one) {
        if (size == bytes.length && !grow()) {
            return;
        }
        bytes[size++] = (byte) one;
    }

    private boolean grow() {
        full = size == BUFFER_BYTES_MAX;
        if (!full) {
            bytes = Arrays.copyOf(bytes, Math.min(2 * size, BUFFER_BYTES_MAX));
        }
        return !full;
    }
}
