"""Rebuild derived tables and the operator's state from the archive, in the order of time, beside the running job.

Events of a late source, which the job had to omit, are only in the archive; a rebuild includes them.

1. `build` folds the archive up to the operator's position in the log (`checkpoints.position`), into files of rows and a
   state for each shard, and catches up with rows archived meanwhile. The job continues.
2. `announce` requests the swap from the job, which ends its queries between two batches. If no job runs, the command
   does the rest itself.
3. `take_over` brings the archive to the position at which the operator stopped, folds those last rows, and decides the
   swap (`checkpoints.swap`). The operator's checkpoint stays: its next batch is the same as without a rebuild, but each
   shard starts from the state that was made here (`Seed`).

A crash before the decision changes nothing; after it, the next start completes the swap. The former rows are kept until
the next rebuild (links to files), and `undo` restores them in the same manner; the job then reads the log again from
that position.
"""
