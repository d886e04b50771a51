"""The demo: the job over a recording of a real cluster, and a report of what it found."""
