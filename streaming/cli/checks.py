"""Check that all requirements of `run` and the lab are present in compatible versions; say how to fix the others.

The checks fetch, start and change nothing.
"""

import asyncio
import os
import re
import resource
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from checkpoints.generation import check_state_version, verify
from rebalance_model.observe.events import BrokerStatus, ClockStep, Event
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.rules.state_lost import CODE as STATE_LOST
from rebalance_model.observe.state import STATE_VERSION
from rebalance_model.observe.state.clocks import bounds_of_now
from schemas.tables import TABLES
from streaming.base import jars, java
from streaming.base.errors import NotReadyError, SettingsError, UserError
from streaming.base.place import queries_of, tables_of
from streaming.base.process import OPEN_FILES_MIN, open_files
from streaming.base.settings import Settings
from streaming.base.times import written
from streaming.cli import peer_checks
from streaming.cli.ours import our_command
from streaming.cli.peer_checks import Check, otlp_checks
from streaming.collect.client import RemotingClient, RequestRefusedError, RpcFailedError
from streaming.collect.collector import collect
from streaming.collect.poll_round import Summary
from streaming.collect.rpc import Rpc
from streaming.collect.security import Security, security_of
from streaming.log.kafka import READER_OPERATIONS, partition_count
from streaming.log.kafka_properties import connection_of
from streaming.queries.labels import duration, some
from streaming.queries.results import Incident
from streaming.tables.versions import violations

DISTRIBUTION = "rebalance-watch"

# The jars are 0.1 GB; the rest is room for tables and state before Spark's spills and Delta's commits begin to fail.
_DISK_BYTES_MIN = 2 << 30
# The memory of the Python workers, the operator's RocksDB and the rest of the machine, beyond the JVM's heap.
_MEMORY_BYTES_BESIDE = 1 << 30
_ANSWER_SECONDS_MAX = 3.0
# Of each table; a job makes about one a second.
_COMMITS_CHECKED = 200
_NAMED = 3


def examine(settings: Settings, *, servers: bool) -> Iterator[Check]:
    """Yield each check when it is done; the checks of servers, which may take seconds each, only with ``servers``."""
    yield _python()
    yield _java()
    packages = [*_packages()]
    yield from packages
    root = _root(settings)
    yield root
    if root.state == "wrong":  # nothing can be below it
        return
    yield from _rights(settings.runtime.root)
    if all(check.part != "pyspark" or check.state != "missing" for check in packages):  # its Ivy fetches the jars
        yield from (_jars(conf, settings.runtime.jars) for conf in jars.JAR_SETS)
    yield _disk(settings)
    yield _memory(settings.job.driver_memory)
    yield _open_files()
    yield _generation(settings)
    yield from _tables(settings)
    yield _contract(settings)
    if servers:
        if settings.source.kind == "kafka":
            yield _kafka(settings)
        if not settings.job.is_local:
            yield _master(settings.job.master)
        yield from _rocketmq(settings)
        yield from otlp_checks(settings.otlp)


def healthy(checks: list[Check]) -> bool:
    """Return whether `run` can start."""
    return all(check.state == "ok" for check in checks if check.needed)


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    required = metadata.metadata(DISTRIBUTION)["Requires-Python"]
    fits = SpecifierSet(required).contains(version)
    return Check(
        part="python",
        state="ok" if fits else "wrong",
        found=f"{version} ({sys.executable})",
        mend="" if fits else f"install a Python {required}, then `make clean venv`",
    )


def _java() -> Check:
    home = java.find_java_home()
    if home is None:
        return Check(
            part="java", state="missing", found="no Java 17 or 21", mend=f"`doctor --fetch`, or {java.INSTALL}"
        )
    return Check(part="java", state="ok", found=f"{java.java_version(home)} ({home})")


def _packages() -> Iterator[Check]:
    """Check the direct dependencies of the distribution and of its job; `pip check` covers the rest."""
    for text in metadata.requires(DISTRIBUTION) or []:
        requirement, mend = Requirement(text), "`make venv`"
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            if not requirement.marker.evaluate({"extra": "job"}):
                continue
            mend = "`make venv`, or install rebalance-watch[job] instead of rebalance-watch"
        try:
            installed = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield Check(part=requirement.name, state="missing", found="not installed", mend=mend)
            continue
        fits = requirement.specifier.contains(installed, prereleases=True)
        yield Check(
            part=requirement.name,
            state="ok" if fits else "wrong",
            found=installed if fits else f"{installed}, not {requirement.specifier}",
            mend="" if fits else "`make clean venv`",
        )


def _root(settings: Settings) -> Check:
    """Say which root is judged: a wrong `--root` looks like a new one."""
    root = settings.runtime.root
    if not os.path.lexists(root):
        return Check(part="root", state="ok", found=f"{root}: does not exist yet, the first command creates it")
    if not root.is_dir():
        mend = "set --root (runtime.root) to a folder"
        return Check(part="root", state="wrong", found=f"{root} is no folder", mend=mend)
    return Check(part="root", state="ok", found=str(root))


def _rights(root: Path) -> Iterator[Check]:
    """Check that what a root has is not for every user of the machine; what is written now is not."""
    if root.exists() and root.stat().st_mode & stat.S_IRWXO:
        found = f"{root} is open to every user of this machine"
        yield Check(part="rights", state="wrong", found=found, mend=f"`chmod -R o= {root}`", needed=False)


def _jars(conf: jars.JarSet, root: Path) -> Check:
    state = jars.state(conf, root)
    needed = conf == "spark"  # the others are the lab's servers
    match state:
        case "present":
            return Check(part=f"{conf} jars", state="ok", found="as in conf/jars.sha256", needed=needed)
        case "missing":
            elsewhere = root.parent.parent / root.name  # where the root of a demo has them: it uses those around it
            if jars.state(conf, elsewhere) == "present":
                mend = f"set runtime.jars to {elsewhere}, which has them"
            else:
                mend = f"`{our_command('doctor', '--fetch')}`; the first start fetches them too"
            return Check(part=f"{conf} jars", state="missing", found=f"not under {root}", mend=mend, needed=needed)
        case "wrong":
            mend = f"delete {root}, then `{our_command('doctor', '--fetch')}`"
            return Check(
                part=f"{conf} jars", state="wrong", found="not those of conf/jars.sha256", mend=mend, needed=needed
            )


def _disk(settings: Settings) -> Check:
    runtime = settings.runtime
    written = (runtime.root, runtime.tables, runtime.checkpoints, settings.log_path)
    for folder in dict.fromkeys(map(_existing, written)):
        if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
            mend = "make it writable, or set runtime.root to another folder"
            return Check(part="disk", state="wrong", found=f"{folder} {_not_writable(folder)}", mend=mend)
    existing = _existing(runtime.root)
    free = shutil.disk_usage(existing).free
    enough = free >= _DISK_BYTES_MIN
    return Check(
        part="disk",
        state="ok" if enough else "wrong",
        found=f"{_gigabytes(free)} free at {existing}",
        mend="" if enough else f"free {_gigabytes(_DISK_BYTES_MIN)}, or set runtime.root to another disk",
    )


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that exists: there the folder will be created."""
    return next(one for one in (folder, *folder.parents) if os.path.lexists(one))


def _not_writable(folder: Path) -> str:
    if not folder.is_dir():
        return "is no folder"
    is_read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
    return "is on a file system that is mounted read-only" if is_read_only else "can't be written by this user"


def _memory(driver_memory: str) -> Check:
    required = _bytes(driver_memory) + _MEMORY_BYTES_BESIDE
    try:
        kibibytes = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        kibibytes = None
    if kibibytes is None:
        return Check(part="memory", state="ok", found="unknown on this system", needed=False)
    free = int(kibibytes[1]) << 10
    enough = free >= required
    return Check(
        part="memory",
        state="ok" if enough else "wrong",
        found=f"{_gigabytes(free)} free; job.driver_memory is {driver_memory}",
        mend="" if enough else f"free {_gigabytes(required)}, or lower job.driver_memory",
    )


def _open_files() -> Check:
    """Check how many files a process may have open; a command has already asked for as many as it may have."""
    allowed = open_files()
    if allowed >= OPEN_FILES_MIN or allowed == resource.RLIM_INFINITY:
        found = "without limit" if allowed == resource.RLIM_INFINITY else f"{allowed:,}"
        return Check(part="open files", state="ok", found=found, needed=False)
    mend = f"allow {OPEN_FILES_MIN:,} or more: LimitNOFILE in a unit of systemd, `ulimit -Hn` in a shell"
    return Check(part="open files", state="wrong", found=f"at most {allowed:,} a process", mend=mend, needed=False)


def _generation(settings: Settings) -> Check:
    try:
        checkpoints = queries_of(settings)
        manifest = verify(settings.runtime.checkpoints, tables_of(settings), checkpoints)
        if manifest is not None:
            check_state_version(manifest.basis, checkpoints, STATE_VERSION)
    except SettingsError as error:
        return Check(part="checkpoints", state="wrong", found="settings can't be used", mend=str(error))
    except UserError as error:
        return Check(part="checkpoints", state="wrong", found=f"can't be used ({checkpoints})", mend=str(error))
    found = f"generation {manifest.generation}" if manifest else "none yet"
    return Check(part="checkpoints", state="ok", found=found)


def _contract(settings: Settings) -> Check:
    """Say whether the newest commits to the tables are of kinds that this program makes."""
    tables = tables_of(settings)
    if not isinstance(tables, Path):
        return Check(part="table history", state="ok", found="not read: the tables are in an object store")
    foreign = [one for table in TABLES for one in violations(tables / table, _COMMITS_CHECKED)]
    if not foreign:
        return Check(part="table history", state="ok", found="all commits are of kinds that the contract allows")
    more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
    return Check(
        part="table history",
        state="wrong",
        found=f"{foreign[0]}{more}",
        mend="let no other program write to the tables (schemas/BUILDING.md), and restore what it has changed",
        needed=False,
    )


def _tables(settings: Settings) -> Iterator[Check]:
    """Say what the tables of the root have, and how old it is; and whether their groups need a proxy."""
    from streaming.queries.groups import groups
    from streaming.queries.incidents import incidents
    from streaming.queries.present import known_ends
    from streaming.tables import ReadModel

    try:
        with ReadModel(tables_of(settings)) as model:
            ends = known_ends(model)
            in_tables = groups(model) if ends is not None else []
            lost = incidents(model, code=STATE_LOST, only_open=True) if in_tables else []
    except NotReadyError:
        yield Check(part="tables", state="ok", found="none yet: `run` creates them")
        return
    except UserError as error:
        yield Check(part="tables", state="wrong", found="can't be read", mend=str(error))
        return
    if ends is None:
        yield Check(part="tables", state="ok", found="no groups yet")
        return
    age = f"{duration(ends.heard.age_ms)} ago"
    yield Check(
        part="tables", state="ok", found=f"{len(in_tables)} groups, last telemetry {written(ends.last)} ({age})"
    )
    yield from _lost_states(lost)
    yield from peer_checks.needed(in_tables, [one for polled in settings.collector.polled for one in polled.proxies])


def _lost_states(lost: list[Incident]) -> Iterator[Check]:
    """Name the groups whose state was lost; nothing if there are none."""
    if not lost:
        return
    names = [f"{one.group} of {one.cluster}" for one in lost[:_NAMED]]
    more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
    yield Check(
        part="state",
        state="wrong",
        found=f"lost of {', '.join(names)}{more}: STATE_LOST",
        mend="`rebalance-watch rebuild`, which derives them from the archive",
        needed=False,
    )


def _kafka(settings: Settings) -> Check:
    source = settings.source
    servers, topic = source.bootstrap_servers, source.topic
    try:
        partitions = partition_count(connection_of(settings), topic, *READER_OPERATIONS)
    except UserError as error:
        found = f"{servers} can't be used"
        return Check(part="kafka", state="missing", found=found, mend=str(error))
    if partitions is None:
        mend = "`rebalance-watch topic create`"
        return Check(part="kafka", state="missing", found=f"{servers} has no topic {topic}", mend=mend)
    fits = partitions == source.partitions
    return Check(
        part="kafka",
        state="ok" if fits else "wrong",
        found=f"{servers}, topic {topic} with {partitions} partitions",
        mend="" if fits else f"set source.partitions to {partitions}, or source.topic to a new one",
    )


def _master(master: str) -> Check:
    from streaming.pipeline.session import check_master  # Spark takes a second to import

    part = "spark master"
    try:
        check_master(master)
    except UserError as error:
        return Check(part=part, state="missing", found=f"{master} does not answer", mend=str(error))
    return Check(part=part, state="ok", found=master)


def _rocketmq(settings: Settings) -> Iterator[Check]:
    """Check each name server, then by one round of polls what the brokers refuse."""
    checks: list[Check] = []
    for polled in settings.collector.polled:
        try:
            security = security_of(settings.rocketmq.of(polled.rocketmq))
        except UserError as error:
            yield Check(part="rocketmq", state="wrong", found="settings can't be used", mend=str(error), needed=False)
            return
        checks += [_name_server(address, security) for address in polled.name_servers]
    yield from checks
    if any(check.state == "ok" for check in checks):
        yield from _brokers(settings)


def _name_server(address: str, security: Security) -> Check:
    part = f"name server {address}"

    async def brokers() -> int:
        async with RemotingClient(security) as client:
            return len((await Rpc(client, (address,)).brokers(_ANSWER_SECONDS_MAX)).brokers)

    try:
        brokers_text = f"{asyncio.run(brokers())} brokers"
    except RequestRefusedError as error:
        return Check(part=part, state="wrong", found="refused", mend=error.remark, needed=False)
    except RpcFailedError as error:
        mend = "start it, or correct collector.name_servers"
        return Check(part=part, state="missing", found=error.remark, mend=mend, needed=False)
    return Check(part=part, state="ok", found=brokers_text, needed=False)


def _brokers(settings: Settings) -> Iterator[Check]:
    """Check what the brokers refuse, and their clocks, by one round of polls."""
    rounds, events = list[Summary](), list[Event]()
    try:
        asyncio.run(collect(settings, events.extend, rounds=1, report=rounds.append))
    except UserError as error:
        yield Check(part="brokers", state="wrong", found="refused", mend=str(error), needed=False)
        return
    if not rounds:
        raise KeyboardInterrupt  # the collector has handled Ctrl-C by a clean end
    [round_] = rounds
    summary = f"{round_.groups} groups, {round_.answered} requests answered, {round_.errors} failed"
    if round_.unreadable:
        summary += f", {round_.unreadable} not readable in part ({'; '.join(round_.unreadable_texts)})"
    if refusals := sorted(round_.refusals):
        more = f" ({len(refusals) - 1} more requests are refused.)" if refusals[1:] else ""
        yield Check(part="brokers", state="wrong", found=summary, mend=refusals[0] + more, needed=False)
    else:
        yield Check(part="brokers", state="ok", found=summary, needed=False)
    yield from _silent(events, round_)
    yield from peer_checks.answers(events)
    yield from _clocks(events)


def _silent(events: Sequence[Event], round_: Summary) -> Iterator[Check]:
    """Name the brokers that answered nothing, and say how many were not asked: nothing is known of those."""
    errors = {
        event.broker: event.error.remark
        for event in events
        if isinstance(event, BrokerStatus) and event.error is not None and event.error.is_silence
    }
    if errors:
        named = some([f"{broker} ({remark})" for broker, remark in sorted(errors.items())])
        mend = "start them, or open their port to this machine; a name server forgets one that is gone after 2 minutes"
        yield Check(part="silent brokers", state="missing", found=f"asked, no answer: {named}", mend=mend, needed=False)
    if round_.not_asked:
        found = f"{round_.not_asked} have been silent before and had no turn in this round"
        mend = "run doctor again; a name server that lists many brokers that never answer may be open to anybody"
        yield Check(part="brokers not asked", state="missing", found=found, mend=mend, needed=False)


def _clocks(events: list[Event]) -> Iterator[Check]:
    """Compare this machine's clock with the brokers', as far as they report theirs; say if it was set meanwhile."""
    limit_ms, off, compared = Policy().clock_skew, list[str](), 0
    for event in events:
        if isinstance(event, ClockStep):
            off.append(f"this machine's clock was set by {event.step / 1_000:+,.0f} s")
        elif isinstance(event, BrokerStatus) and event.now and event.asked <= event.answered:
            low, high = bounds_of_now(event.asked, event.answered, event.now)
            compared += 1
            if low > limit_ms or high < -limit_ms:
                way = "ahead of" if low > 0 else "behind"
                off.append(f"{event.broker}'s is {min(abs(low), abs(high)) / 1_000:,.0f} s {way} this machine's")
    off = list(dict.fromkeys(off))
    if off:
        mend = "check NTP on this machine and on the brokers' hosts: where all brokers differ, this machine is wrong"
        yield Check(part="clocks", state="wrong", found="; ".join(off), mend=mend, needed=False)
    elif compared:
        yield Check(part="clocks", state="ok", found=f"within {limit_ms // 1_000} s of the brokers'", needed=False)


def _bytes(size: str) -> int:
    """Convert a JVM size (2g, 512m) to bytes.

    Raises:
        UserError: the text is not a size.
    """
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", size.lower())
    if match is None:
        raise UserError(f"Invalid job.driver_memory {size!r}. Use a size such as 2g or 512m.")
    return int(match[1]) << 10 * " kmgt".index(match[2] or " ")


def _gigabytes(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
