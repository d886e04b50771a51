"""The rules of detection.md: one small pure predicate a file, judged on the state after an event or at a deadline."""
