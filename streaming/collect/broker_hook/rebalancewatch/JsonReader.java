package rebalancewatch;

import java.nio.charset.StandardCharsets;

/**
 * Reads a JSON body from its first byte to its last, once, and builds nothing but the values that are asked for; so its
 * time and memory are bounded by the body's length, whatever it holds. The broker's own parser gives no such bound: it
 * makes a BigInteger of any number of digits, and replaces references ({@code $ref}) by what they refer to.
 *
 * <p>The reader accepts what the clients send: numbers as text, null, unknown fields, raw control characters in a
 * text, a value that is missing before a comma or a brace. A value of another type than the one that is asked for, or
 * beyond a limit of {@link Limits}, is unknown and counted ({@link #unknown}). What is no JSON, or too deep, throws an
 * IllegalArgumentException.
 */
final class JsonReader {
    /** No field that is asked for has a longer name. */
    private static final int FIELD_CHARACTERS = 64;
    /** A character may be written as an escape of six bytes. */
    private static final int BYTES_A_CHARACTER = 6;

    private final byte[] bytes;
    private int at;
    private int depth;
    /** The open objects (0) and lists (1), the innermost in the lowest bit. */
    private long open;
    private int unknown;
    private int parts;

    JsonReader(byte[] bytes) {
        this.bytes = bytes == null ? new byte[0] : bytes;
    }

    /** Returns how many values could not be read so far. */
    int unknown() {
        return unknown;
    }

    /** Changes that number: what was unknown in a part that is left out makes one. */
    void setUnknown(int count) {
        unknown = count;
    }

    /** Counts a part of the body that is kept. */
    void beginPart() {
        if (++parts > Limits.BODY_PARTS) {
            throw new IllegalArgumentException("more than " + Limits.BODY_PARTS + " parts");
        }
    }

    /** Begins the body's object; false if there is no body, or it is null. */
    boolean beginBody() {
        skipBlanks();
        if (at == bytes.length) {
            return false;
        }
        if (beginObject()) {
            return true;
        }
        if (unknown > 0) {
            throw new IllegalArgumentException("the body is no object");
        }
        return false;
    }

    /** Begins an object; false if the next value is another one, which is skipped. */
    boolean beginObject() {
        return begin('{');
    }

    /** Begins a list; false if the next value is another one, which is skipped. */
    boolean beginList() {
        return begin('[');
    }

    /** Returns the name of the object's next field, empty if it is too long; null: the object has ended. */
    String field() {
        byte next = next();
        if (next == '}') {
            close(next);
            return null;
        }
        if (next != '"') {
            throw unexpected();
        }
        String name = string(FIELD_CHARACTERS);
        if (next() != ':') {
            throw unexpected();
        }
        at++;
        return name == null ? "" : name;
    }

    /** Whether the list has another value; if not, it has ended. */
    boolean more() {
        byte next = next();
        if (next == ']') {
            close(next);
            return false;
        }
        if (next == '}' || next == ':') {
            throw unexpected();
        }
        return true;
    }

    /** Returns a text, also of a number or a boolean; null: there is none, or it is longer than that. */
    String text(int charactersMax) {
        byte next = next();
        if (next == '{' || next == '[') {
            skip();
            unknown++;
            return null;
        }
        if (next == '"') {
            String text = string(charactersMax);
            unknown += text == null ? 1 : 0;
            return text;
        }
        int from = at;
        skipToken();
        if (at == from || at - from > Math.min(charactersMax, Limits.NUMBER_CHARACTERS)) {
            unknown++;
            return null;
        }
        String token = new String(bytes, from, at - from, StandardCharsets.UTF_8);
        return token.equals("null") ? null : token;
    }

    /** Returns a name as an event may have it; null: there is none. */
    String name(int charactersMax) {
        String name = text(charactersMax);
        if (name != null && (name.isEmpty() || !Names.isWellFormed(name))) {
            unknown++;
            return null;
        }
        return name;
    }

    /** Returns an integer of 64 bits, also one that is written without its sign; otherwise if there is none. */
    long number(long otherwise) {
        String text = text(Limits.NUMBER_CHARACTERS);
        if (text == null) {
            return otherwise;
        }
        try {
            return text.startsWith("-") ? Long.parseLong(text) : Long.parseUnsignedLong(text);
        } catch (NumberFormatException error) {
            unknown++;
            return otherwise;
        }
    }

    /** Returns such an integer of 32 bits. */
    int int32(int otherwise) {
        long number = number(otherwise);
        if (number != (int) number) {
            unknown++;
            return otherwise;
        }
        return (int) number;
    }

    boolean flag() {
        return Boolean.parseBoolean(text(Limits.NUMBER_CHARACTERS));
    }

    /** Skips the next value. */
    void skip() {
        int outside = depth;
        do {
            byte next = next();
            if (next == '{' || next == '[') {
                open(next);
            } else if (next == '}' || next == ']') {
                if (depth == outside) {
                    return; // the value is missing
                }
                close(next);
            } else if (next == '"') {
                skipString();
            } else if (next == ':') {
                at++;
            } else {
                skipToken();
            }
        } while (depth > outside);
    }

    private boolean begin(char bracket) {
        byte next = next();
        if (next == bracket) {
            open(next);
            return true;
        }
        int from = at;
        skip();
        boolean isNull = at - from == 4 && next == 'n';
        unknown += isNull ? 0 : 1;
        return false;
    }

    private void open(byte bracket) {
        if (depth == Limits.BODY_DEPTH) {
            throw new IllegalArgumentException("nested more than " + Limits.BODY_DEPTH + " deep");
        }
        depth++;
        open = open << 1 | (bracket == '[' ? 1 : 0);
        at++;
    }

    private void close(byte bracket) {
        if (depth == 0 || (open & 1) != (bracket == ']' ? 1 : 0)) {
            throw unexpected();
        }
        depth--;
        open >>>= 1;
        at++;
    }

    /** Returns the next byte that is no blank and no comma, without reading it. */
    private byte next() {
        skipBlanks();
        if (at == bytes.length) {
            throw unexpected();
        }
        return bytes[at];
    }

    private void skipBlanks() {
        while (at < bytes.length && (bytes[at] == ',' || bytes[at] >= 0 && bytes[at] <= ' ')) {
            at++;
        }
    }

    /** Skips a number, true, false or null: everything up to the next sign of JSON. */
    private void skipToken() {
        while (at < bytes.length && isOfToken(bytes[at])) {
            at++;
        }
    }

    private static boolean isOfToken(byte one) {
        return one < 0 || one > ' ' && one != ',' && one != ':' && one != '"' && one != '{' && one != '}' && one != '['
            && one != ']';
    }

    /** Skips a string; returns whether it has escapes. */
    private boolean skipString() {
        boolean escaped = false;
        at++;
        while (at < bytes.length && bytes[at] != '"') {
            if (bytes[at] == '\\') {
                escaped = true;
                at++;
            }
            at++;
        }
        if (at >= bytes.length) {
            throw unexpected();
        }
        at++;
        return escaped;
    }

    /** Reads a string; null if it is longer than that. */
    private String string(int charactersMax) {
        int from = at + 1;
        boolean escaped = skipString();
        int length = at - 1 - from;
        if (length > (long) charactersMax * BYTES_A_CHARACTER) {
            return null;
        }
        String raw = new String(bytes, from, length, StandardCharsets.UTF_8);
        String text = escaped ? unescaped(raw) : raw;
        return text.length() > charactersMax ? null : text;
    }

    private static String unescaped(String raw) {
        StringBuilder text = new StringBuilder(raw.length());
        for (int i = 0; i < raw.length(); i++) {
            char c = raw.charAt(i);
            if (c != '\\') {
                text.append(c);
                continue;
            }
            c = raw.charAt(++i);
            if (c == 'u') {
                if (i + 4 >= raw.length()) {
                    throw new IllegalArgumentException("an escape ends early");
                }
                text.append((char) Integer.parseInt(raw.substring(i + 1, i + 5), 16));
                i += 4;
            } else {
                int control = "bfnrt".indexOf(c);
                text.append(control < 0 ? c : "\b\f\n\r\t".charAt(control));
            }
        }
        return text.toString();
    }

    private IllegalArgumentException unexpected() {
        return new IllegalArgumentException(at < bytes.length ? "no JSON at byte " + at : "the body ends early");
    }
}
