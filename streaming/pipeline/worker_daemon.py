"""The process that Spark forks its Python workers from, after it has imported once what all of them need.

Spark's own daemon imports none of it, so each worker imports pandas, Arrow and this program again: 2.7 s of processor
time for each worker of a job with two cores, and memory that they could share. The property
``spark.python.daemon.module`` names this module. Nothing here may write to standard output: Spark reads a port there.
"""

import gc

from pyspark import daemon, worker  # noqa: F401  the worker's module, too, is only imported

from streaming.pipeline import archive_rows, operator, sources  # noqa: F401  as above

if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # a worker collects garbage after each task: without this it walks through all that was imported
    daemon.manager()
