package rebalancewatch;

/** The names that an event may have; any other throws an IllegalArgumentException. */
final class Names {
    private Names() {
    }

    static String group(String name) {
        return checked(Limits.GROUP_CHARACTERS, name);
    }

    static String name(String name) {
        return checked(Limits.NAME_CHARACTERS, name);
    }

    /** A text that may be missing. */
    static String notLong(String text) {
        return text == null || text.isEmpty() ? text : name(text);
    }

    /** Whether every surrogate has its pair: others have no UTF-8, so two names with them would become one. */
    static boolean isWellFormed(String text) {
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (Character.isSurrogate(c)) {
                boolean pair = Character.isHighSurrogate(c) && i + 1 < text.length()
                    && Character.isLowSurrogate(text.charAt(i + 1));
                if (!pair) {
                    return false;
                }
                i++;
            }
        }
        return true;
    }

    private static String checked(int charactersMax, String name) {
        if (name == null || name.isEmpty()) {
            throw new IllegalArgumentException("a field is missing");
        }
        if (name.length() > charactersMax || !isWellFormed(name)) {
            throw new IllegalArgumentException("a name of " + name.length() + " characters");
        }
        return name;
    }
}
