"""Compare rebalances with the hand-overs of queues: by hooks exactly, by polls within an interval."""

from collections.abc import Iterable

from tests.audit.answers import ShownMove, ShownRebalance
from tests.audit.costs import PULL_BATCH_MAX, HandOver, hand_overs
from tests.audit.differences import Difference, Result
from tests.audit.owners import GroupOwners
from tests.audit.reading import Reading, is_retry, named, owner_at
from tests.audit.telemetry import Place, Queue

SETTLING_MS = 60_000
"""This long after its beginning a recording is not compared: what happened before it is unknown."""


def compare_rebalances(result: Result, reading: Reading, place: Place, rebalances: Iterable[ShownRebalance]) -> None:
    """Check that each hand-over belongs to a move of one rebalance, with its pause and the messages consumed again."""
    group, begins = reading.owners[place], reading.events[0].time + SETTLING_MS
    raw = [one for one in hand_overs(group) if one.taken > begins and not is_retry(one.queue)]
    covered: set[HandOver] = set()
    for rebalance in rebalances:
        if rebalance.start <= begins:
            continue
        within = [one for one in raw if rebalance.start <= one.taken <= rebalance.end]
        covered.update(within)
        _compare_rebalance(result, reading, place, rebalance, within)
        for move in rebalance.moves:
            if move.former is not None and move.new_owner is not None and not is_retry(move.queue):
                chain = [one for one in within if one.queue == move.queue]
                _compare_move(result, place, rebalance, move, chain)
    for hand_over in raw:
        answered, said = None, f"{hand_over.former} to {hand_over.new_owner}, {hand_over.pause_ms} ms"
        missed = Difference("hand-over in a rebalance", hand_over.taken, place, named(hand_over.queue), answered, said)
        result.check(hand_over in covered, missed)


def _compare_rebalance(
    result: Result, reading: Reading, place: Place, rebalance: ShownRebalance, within: list[HandOver]
) -> None:
    group = reading.owners[place]
    former = {one.queue: one.former for one in reversed(within)}
    new_owners = {
        one.queue: one.new_owner for one in within if owner_at(group, one.queue, rebalance.settled) is not None
    }
    moved = sum(former[queue] != new_owner for queue, new_owner in new_owners.items())
    moved += sum(_is_first(group, queue, rebalance) for queue in reading.queues(place, rebalance.settled))
    start, subject = rebalance.start, f"rebalance {rebalance.rebalance_id[:8]}"
    count = Difference("queues moved", start, place, subject, rebalance.queues_moved, moved)
    result.check(rebalance.queues_moved == moved, count)
    if rebalance.converged:
        queues = reading.queues(place, rebalance.settled)
        held = {queue: owner_at(group, queue, rebalance.settled) for queue in queues}
        unassigned = sorted(named(queue) for queue, owner in held.items() if owner is None)
        result.check(not unassigned, Difference("converged", start, place, subject, "converged", unassigned))


def _is_first(group: GroupOwners, queue: Queue, rebalance: ShownRebalance) -> bool:
    """Return whether a queue that never had an owner got its first one in a rebalance."""
    first = next((change.time for change in group.queues[queue].changes if change.client is not None), None)
    return first is not None and rebalance.start <= first <= rebalance.end


def _compare_move(
    result: Result, place: Place, rebalance: ShownRebalance, move: ShownMove, chain: list[HandOver]
) -> None:
    subject = f"{named(move.queue)} {move.former} to {move.new_owner} ({rebalance.rebalance_id[:8]})"
    raw = [(one.former, one.new_owner) for one in chain]
    fits = bool(chain) and (chain[0].former, chain[-1].new_owner) == (move.former, move.new_owner)
    result.check(fits, Difference("move", rebalance.start, place, subject, (move.former, move.new_owner), raw))
    if not fits:
        return
    taken, pauses = chain[-1].taken, [one.pause_ms for one in chain]
    if len(chain) > 1 and chain[0].stopped is not None and chain[-1].resumed is not None:
        pauses.append(chain[-1].resumed - chain[0].stopped)
    kind = "pause" if len(chain) == 1 else "pause, several hand-overs"
    result.check(move.pause_ms in pauses, Difference(kind, taken, place, subject, move.pause_ms, pauses))
    if len(chain) == 1:
        again, shown = chain[0].read_again(rebalance.settled), (move.read_again_min, move.read_again_max)
        result.check(_within(shown, again), Difference("read again", taken, place, subject, shown, again))


def _within(bounds: tuple[int | None, int | None], raw: tuple[int, int] | None) -> bool:
    """Return whether bounds fit: the lower one exactly, the upper one up to the batch of the last pull."""
    least, most = bounds
    if raw is None:
        return most is None
    return least == raw[0] and most is not None and raw[0] <= most <= raw[1] + PULL_BATCH_MAX


def compare_polled_moves(result: Result, reading: Reading, place: Place, rebalances: Iterable[ShownRebalance]) -> None:
    """Compare moves by polls with the hand-overs by hooks; times may differ by one interval and an answer's time."""
    slack, begins = reading.slack, reading.events[0].time + SETTLING_MS
    raw = hand_overs(reading.truth[place])
    for rebalance in rebalances:
        for move in rebalance.moves:
            if None in (move.former, move.new_owner) or move.former == move.new_owner or is_retry(move.queue):
                continue
            near = [one for one in raw if one.queue == move.queue]
            near = [one for one in near if rebalance.start - slack <= one.taken <= rebalance.end + slack]
            if rebalance.start > begins:
                _compare_polled_move(result, slack, place, rebalance, move, near)


def _compare_polled_move(
    result: Result, slack: int, place: Place, rebalance: ShownRebalance, move: ShownMove, near: list[HandOver]
) -> None:
    subject = f"{named(move.queue)} {move.former} to {move.new_owner} ({rebalance.rebalance_id[:8]})"
    raw = [(one.former, one.new_owner) for one in near]
    fits = move.former in {former for former, _ in raw} and move.new_owner in {new_owner for _, new_owner in raw}
    start = rebalance.start
    result.check(fits, Difference("move by polls", start, place, subject, (move.former, move.new_owner), raw))
    if raw != [(move.former, move.new_owner)]:
        return
    [hand_over] = near
    close = (
        move.pause_ms is not None
        and hand_over.pause_ms is not None
        and abs(move.pause_ms - hand_over.pause_ms) <= slack
    )
    result.check(
        close, Difference("pause by polls", hand_over.taken, place, subject, move.pause_ms, hand_over.pause_ms)
    )
    again, bounds = hand_over.read_again(rebalance.settled), (move.read_again_min, move.read_again_max)
    if again is not None and bounds[0] is not None and bounds[1] is not None:
        bounded = bounds[0] <= again[1] + PULL_BATCH_MAX and again[0] <= bounds[1]
        result.check(bounded, Difference("read again by polls", hand_over.taken, place, subject, bounds, again))
