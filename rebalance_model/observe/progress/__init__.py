"""Quantities as a series: what one answer, or a broker's hook, reports of one group's queues at one broker.

A quantity (lag, waiting time, cached messages, the stamps of lock, pull and consumption) has the time of its
observation. So each answer becomes one row of arrays when it arrives: it is not delayed by the ordering, and no rule
judges it. Readers take, for an instant, the last observation not after it. The rows depend on the order of the log, not
on where it is cut into batches, and are left out when two logs of different delays are compared.

The state is small and kept apart from the group's. It has the last reported values, so that a client's answer and a
hook add only queues with changed values (repeated after `REPEATED_AFTER` at the latest), and distinguishes a commit of
0 from no commit.

Bounds, where a number is not known exactly:
- A hook knows the newest offset only if its broker answers a send within the call. Otherwise the lag is at least the
  messages that were pulled and not yet committed.
- CONSUME_STATS reports when the last consumed message was stored: the next one has waited for at most that long.
- A client's stamp is at the latest the answer's time minus its distance to the newest stamp of the same answer; a stamp
  that an earlier answer carried keeps the earlier bound.
"""

from rebalance_model.observe.progress.log import ProgressLog, Unwritten, observe
from rebalance_model.observe.progress.state import ProgressState

__all__ = ["ProgressLog", "ProgressState", "Unwritten", "observe"]
