"""Quantities as a series: what one answer, or a broker's hook, says of the queues of one group at one broker.

A quantity (lag, waiting time, cached messages, the stamps of lock, pull and consumption) has the time of its
observation. So each answer becomes one row of arrays when it arrives: no ordering holds it back, and no judgement is
involved. Readers take, for an instant, the last observation not after it. The rows depend on the order of the log, not
on where it is cut into batches, and are left out when two logs of different delays are compared.

The state is small and kept apart from the group's: it knows what was said last, so that a client's answer and a hook
add only queues of which they say something new (`REPEATED_AFTER` at the latest), and it tells a commit of 0 from none.

Bounds, where a number is not known exactly:
- A hook knows the newest offset only where its broker answers a send within the call. Elsewhere the lag is at least
  what was pulled and is not yet committed.
- CONSUME_STATS tells when the last consumed message was stored: the next one waits for that long at most.
- A client's stamp is at the latest the answer's time less its distance to the newest stamp of the same answer; a stamp
  that an earlier answer carried keeps the earlier bound.
"""

from rebalance_model.observe.progress.log import KEY, ProgressLog, Unwritten, observe
from rebalance_model.observe.progress.state import ProgressState

__all__ = ["KEY", "ProgressLog", "ProgressState", "Unwritten", "observe"]
