package rebalancewatch;

import java.nio.charset.StandardCharsets;

/** Writes one JSON object as a line; reused by the writer's thread. */
final class Json {
    private final StringBuilder text = new StringBuilder(512);

    Json begin() {
        text.setLength(0);
        text.append('{');
        return this;
    }

    byte[] end() {
        text.append("}\n");
        byte[] line = text.toString().getBytes(StandardCharsets.UTF_8);
        if (text.capacity() > 1 << 20) {
            text.setLength(0);
            text.trimToSize(); // do not keep the memory of one huge event
        }
        return line;
    }

    Json field(String name, String value) {
        name(name);
        string(value);
        return this;
    }

    Json field(String name, long value) {
        name(name);
        text.append(value);
        return this;
    }

    Json field(String name, boolean value) {
        name(name);
        text.append(value);
        return this;
    }

    /** A list of texts. */
    Json field(String name, Iterable<String> values) {
        name(name);
        text.append('[');
        for (String value : values) {
            comma();
            string(value);
        }
        text.append(']');
        return this;
    }

    Json openList(String name) {
        name(name);
        text.append('[');
        return this;
    }

    Json closeList() {
        text.append(']');
        return this;
    }

    Json openObject() {
        comma();
        text.append('{');
        return this;
    }

    Json closeObject() {
        text.append('}');
        return this;
    }

    private void name(String name) {
        comma();
        string(name);
        text.append(':');
    }

    private void comma() {
        char before = text.charAt(text.length() - 1);
        if (before != '{' && before != '[') {
            text.append(',');
        }
    }

    private void string(String value) {
        text.append('"');
        for (int i = 0; i < value.length(); i++) {
            char c = value.charAt(i);
            if (c == '"' || c == '\\') {
                text.append('\\').append(c);
            } else if (c < ' ') {
                text.append(String.format("\\u%04x", (int) c));
            } else {
                text.append(c);
            }
        }
        text.append('"');
    }
}
