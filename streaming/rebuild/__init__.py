"""Derived tables and the operator's state made anew from the archive, in the order of time, beside the running job.

What a source that was late had left out is in the archive alone; here it takes its place.

1. `build` folds the archive up to what the operator has read (`checkpoints.position`), into files of rows and a state
   for each shard, and catches up with what was archived meanwhile. The job goes on.
2. `announce` asks the job for the swap. It ends its queries between two batches; where none runs, the command does the
   rest itself.
3. `take_over` brings the archive up to where the operator stopped, folds those last rows, and decides the swap
   (`checkpoints.swap`). The operator's checkpoint stays: its next batch is the one that it would have been, but each
   shard takes the state that was made here (`seed`).

A crash before the decision leaves what was; after it, the next start completes it. What was is kept until the next
rebuild (links to files), and `undo` puts it back in the same manner; the job then reads the log again from there.
"""
