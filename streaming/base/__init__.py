"""The lowest layer: settings, errors, times, shared files, Java and the jars."""
