package rebalancewatch;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/** An object of a JSON body, read by the broker's own parser; invalid content throws an IllegalArgumentException. */
final class Body {
    private final Map<?, ?> values;

    private Body(Map<?, ?> values) {
        this.values = values;
    }

    /** Parses the body as an object; without a body, an object without fields. */
    static Body of(byte[] bytes) {
        Map<?, ?> values = bytes == null || bytes.length == 0 ? null : RemotingSerializable.decode(bytes, Map.class);
        return new Body(values == null ? Collections.emptyMap() : values);
    }

    /** Returns a required text. */
    String text(String name) {
        String text = text(name, "");
        if (text.isEmpty()) {
            throw new IllegalArgumentException(name + " is missing");
        }
        return text;
    }

    String text(String name, String otherwise) {
        Object value = values.get(name);
        return value == null ? otherwise : value.toString();
    }

    long number(String name, long otherwise) {
        Object value = values.get(name);
        return value == null ? otherwise : Long.parseLong(value.toString());
    }

    boolean flag(String name) {
        return Boolean.parseBoolean(String.valueOf(values.get(name)));
    }

    List<String> texts(String name) {
        List<String> texts = new ArrayList<>();
        for (Object value : list(name)) {
            texts.add(String.valueOf(value));
        }
        return texts;
    }

    List<Body> objects(String name) {
        List<Body> objects = new ArrayList<>();
        for (Object value : list(name)) {
            if (!(value instanceof Map)) {
                throw new IllegalArgumentException(name + " holds something else than objects");
            }
            objects.add(new Body((Map<?, ?>) value));
        }
        return objects;
    }

    private Collection<?> list(String name) {
        Object value = values.get(name);
        if (value != null && !(value instanceof Collection)) {
            throw new IllegalArgumentException(name + " is no list");
        }
        return value == null ? Collections.emptyList() : (Collection<?>) value;
    }
}
