"""Everything that runs: session, sources, operator, sinks, archive, collector, lab and the command line."""
