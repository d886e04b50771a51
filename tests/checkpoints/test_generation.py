import json
import shutil
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from checkpoints.generation import claimed, verify
from checkpoints.manifest import ARCHIVE, MANIFEST, OPERATOR, PROPERTY, QUERY_TABLES, Basis, app_id, read_manifest
from checkpoints.spark_files import follow_itself, note_last_commits
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import STATE_VERSION
from schemas.arrow import arrow_schema
from schemas.tables import TABLES
from streaming.base.errors import UserError
from streaming.base.place import ObjectPlace
from streaming.base.settings import load_policy
from streaming.log.identity import LogId
from streaming.pipeline.rebuild.build import require_manifest
from streaming.pipeline.rebuild.folder import Folder
from tests.support.basis import BASIS

PLAN = 'v1\n{}\n{"telemetry":{"0":1}}'


def start(root: Path, **changed: object) -> str:
    """Claim the root as a run does, and let it go."""
    with claimed(root / "checkpoints", root / "tables", changed_basis(**changed)) as generation:
        return generation


def changed_basis(**changed: object) -> Basis:
    return msgspec.structs.replace(BASIS, **changed)


def ran(root: Path, query: str, *, begun: int, finished: int | None) -> None:
    """Leave what Spark leaves of a query that began and finished batches, and its rows' transactions."""
    for folder, last, text in (("offsets", begun, PLAN), ("commits", finished, "v1\n{}")):
        files = root / "checkpoints" / query / folder
        files.mkdir(parents=True)
        for batch in range(0 if last is None else last + 1):
            (files / str(batch)).write_text(text)


def wrote(root: Path, query: str, table: str, batch: int) -> None:
    delta = DeltaTable(root / "tables" / table)
    generation = delta.metadata().configuration[PROPERTY]
    write_deltalake(
        delta,
        arrow_schema(table).empty_table(),
        mode="append",
        commit_properties=CommitProperties(app_transactions=[Transaction(app_id(query, table, generation), batch)]),
    )


def test_the_first_start_makes_all_tables_of_one_generation(tmp_path):
    generation = start(tmp_path)
    for table in TABLES:
        assert DeltaTable(tmp_path / "tables" / table).metadata().configuration[PROPERTY] == generation
    assert start(tmp_path) == generation


def test_another_log_of_the_same_name_is_refused_unless_the_root_has_no_id(tmp_path):
    start(tmp_path)  # of an earlier release
    start(tmp_path, log=LogId("cluster", "topic"))
    assert read_manifest(tmp_path / "checkpoints").basis.log == LogId("cluster", "topic")
    for other in (LogId("cluster", "again"), LogId("elsewhere", "topic")):
        with pytest.raises(UserError, match=r"This log \(files /log\) is not the one .* under a new runtime\.root"):
            start(tmp_path, log=other)
    start(tmp_path, log=LogId("cluster", ""))  # a Kafka before 2.8 has no topic ids
    assert read_manifest(tmp_path / "checkpoints").basis.log == LogId("cluster", "topic")


def lists_files(root: Path, query: str, folder: str) -> Path:
    """Leave what Spark leaves of a query that has read two files of a log: the addresses as Java has them."""
    file = root / "checkpoints" / query / "sources" / "0" / "0"
    file.parent.mkdir(parents=True)
    names = [f"partition={number}/{number:020}.jsonl" for number in (0, 1)]
    entries = [{"path": f"file://{folder}/{name}", "timestamp": 1, "batchId": 0} for name in names]
    file.write_text(
        "\n".join(["v1", *(json.dumps(entry, ensure_ascii=False, separators=(",", ":")) for entry in entries)])
    )
    file.with_name(".0.crc").write_bytes(b"of the former content")
    return file


def test_a_log_of_files_is_followed_to_another_folder_by_its_id(tmp_path):
    log = LogId(log="the-log")
    start(tmp_path, source="files /old/a b/é", log=log)
    files = [lists_files(tmp_path, query, "/old/a%20b/é") for query in QUERY_TABLES]
    before = [file.read_text() for file in files]
    with pytest.raises(UserError, match=r"made with source = files /old/a b/é, not files /new/50% \+"):
        start(tmp_path, source="files /new/50% +", log=LogId(log="another"))
    assert [file.read_text() for file in files] == before

    for _ in range(2):
        start(tmp_path, source="files /new/50% +", log=log)
        assert [file.read_text() for file in files] == [text.replace("old/a%20b/é", "new/50%25%20+") for text in before]
        assert not any(file.with_name(".0.crc").exists() for file in files)
    assert read_manifest(tmp_path / "checkpoints").basis.source == "files /new/50% +"

    files[0].write_text(before[0])
    with pytest.raises(UserError, match="has a file of another folder than that of the log"):
        start(tmp_path, source="files /third", log=log)


def test_the_state_s_schemas_are_looked_for_where_the_checkpoint_is(tmp_path):
    description = tmp_path / "state" / "0" / "_metadata" / "v2" / "0"
    description.parent.mkdir(parents=True)
    schema = "/state/0/_stateSchema/default/0_a-b"
    description.write_text(f'v2\n{{"stateSchemaFilePaths":["file:/former/checkpoints/operator{schema}"]}}')
    for _ in range(2):
        follow_itself(tmp_path)
        assert description.read_text() == f'v2\n{{"stateSchemaFilePaths":["file:{tmp_path}{schema}"]}}'


def test_who_opens_a_table_reads_at_most_20_commits_of_its_log(tmp_path):
    start(tmp_path)
    for _ in range(45):
        write_deltalake(tmp_path / "tables" / "anomalies", arrow_schema("anomalies").empty_table(), mode="append")

    log = (tmp_path / "tables" / "anomalies" / "_delta_log").glob("*.checkpoint.parquet")
    assert 45 - max(int(file.name.partition(".")[0]) for file in log) < 20


def test_a_start_that_was_killed_before_its_tables_were_made_is_completed(tmp_path):
    generation = start(tmp_path)
    shutil.rmtree(tmp_path / "tables" / "anomalies")
    assert start(tmp_path) == generation
    assert DeltaTable(tmp_path / "tables" / "anomalies").metadata().configuration[PROPERTY] == generation


def test_a_table_and_a_column_that_a_later_release_adds_are_made(tmp_path):
    """The root was made, and written to, by a release that had no `anomalies` and no `corrections`."""
    generation = start(tmp_path)
    ran(tmp_path, OPERATOR, begun=3, finished=3)
    shutil.rmtree(tmp_path / "tables" / "anomalies")
    manifest = tmp_path / "checkpoints" / "generation.json"
    older = msgspec.json.decode(manifest.read_bytes())
    older["tables"].remove("anomalies")
    manifest.write_bytes(msgspec.json.encode(older))
    table = tmp_path / "tables" / "group_state"
    shutil.rmtree(table)
    schema = arrow_schema("group_state")
    lacking = schema.remove(schema.get_field_index("corrections"))
    DeltaTable.create(table, schema=lacking, configuration={PROPERTY: generation}, raise_if_key_not_exists=False)
    assert start(tmp_path) == generation
    assert DeltaTable(tmp_path / "tables" / "anomalies").metadata().configuration[PROPERTY] == generation
    assert {field.name for field in DeltaTable(table).schema().fields} == set(schema.names)
    wrote(tmp_path, OPERATOR, "group_state", 4)


def test_a_table_whose_column_had_another_type_is_refused(tmp_path):
    generation = start(tmp_path)
    table = tmp_path / "tables" / "group_state"
    shutil.rmtree(table)
    schema = arrow_schema("group_state")
    older = schema.set(schema.get_field_index("time"), pa.field("time", pa.int64(), nullable=False))
    DeltaTable.create(table, schema=older, configuration={PROPERTY: generation}, raise_if_key_not_exists=False)
    with pytest.raises(UserError, match=r"its column time has another type\. Start that release again"):
        start(tmp_path)


def test_two_runs_at_once_are_refused(tmp_path):
    start(tmp_path)
    with (
        claimed(tmp_path / "checkpoints", tmp_path / "tables", BASIS),
        pytest.raises(UserError, match="Another run works on"),
    ):
        start(tmp_path)
    start(tmp_path)


def test_tables_without_their_checkpoint_are_refused(tmp_path):
    start(tmp_path)
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(UserError, match=r"the position is unknown: start under a new runtime.root, which"):
        start(tmp_path)


def test_a_checkpoint_without_its_generation_is_refused(tmp_path):
    ran(tmp_path, OPERATOR, begun=0, finished=0)
    with pytest.raises(UserError, match=r"the checkpoint of the operator query but no .*generation\.json"):
        start(tmp_path)


def test_a_table_of_another_generation_is_refused(tmp_path):
    start(tmp_path / "ours")
    start(tmp_path / "theirs")
    shutil.rmtree(tmp_path / "ours/tables/anomalies")
    shutil.copytree(tmp_path / "theirs/tables/anomalies", tmp_path / "ours/tables/anomalies")
    with pytest.raises(UserError, match=r"anomalies belongs to other checkpoints .*: restore checkpoints and tables"):
        start(tmp_path / "ours")


def test_a_table_that_was_removed_after_its_rows_were_passed_is_refused(tmp_path):
    start(tmp_path)
    ran(tmp_path, ARCHIVE, begun=0, finished=0)
    shutil.rmtree(tmp_path / "tables/telemetry")
    with pytest.raises(UserError, match="The table telemetry is missing"):
        start(tmp_path)


@pytest.mark.parametrize("left", [None, 1], ids=["removed", "restored from an older copy"])
def test_a_query_s_checkpoint_that_was_set_back_is_refused(tmp_path, left):
    start(tmp_path)
    wrote(tmp_path, OPERATOR, "anomalies", 2)
    if left is not None:
        ran(tmp_path, OPERATOR, begun=left, finished=left)
    with pytest.raises(UserError, match="anomalies has batch 2 of the operator query, but its checkpoint was reset"):
        start(tmp_path)


def test_a_start_that_is_refused_leaves_the_state(tmp_path):
    """As of a checkpoint of which only the plans are gone: restored, it goes on."""
    start(tmp_path)
    wrote(tmp_path, OPERATOR, "anomalies", 2)
    changes = tmp_path / "checkpoints" / OPERATOR / "state/0/0/3.changelog"
    changes.parent.mkdir(parents=True)
    changes.write_bytes(b"of batch 2")
    with pytest.raises(UserError, match="its checkpoint was reset"):
        start(tmp_path)
    assert changes.exists()


def test_a_start_removes_what_its_next_batch_writes_again_of_the_state(tmp_path):
    start(tmp_path)
    ran(tmp_path, OPERATOR, begun=1, finished=0)
    for version in (1, 2):
        changes = tmp_path / "checkpoints" / OPERATOR / f"state/0/0/{version}.changelog"
        changes.parent.mkdir(parents=True, exist_ok=True)
        changes.write_bytes(b"")
    start(tmp_path)
    assert [file.name for file in changes.parent.iterdir()] == ["1.changelog"]


def test_rows_of_a_batch_that_was_not_finished_are_no_reset(tmp_path):
    start(tmp_path)
    wrote(tmp_path, OPERATOR, "anomalies", 2)
    ran(tmp_path, OPERATOR, begun=2, finished=1)
    start(tmp_path)


@pytest.mark.parametrize(
    ("changed", "setting"),
    [
        ({"source": "files /elsewhere"}, "source = files /log, not files /elsewhere"),
        ({"partitions": 16}, "source.partitions = 8, not 16"),
        ({"state_partitions": 4}, "job.state_partitions = 2, not 4"),
    ],
)
def test_what_is_for_ever_can_not_be_changed(tmp_path, changed, setting):
    start(tmp_path)
    with pytest.raises(UserError, match=f"made with {setting}: restore it, or start under"):
        start(tmp_path, **changed)


CHANGES = [
    (
        {"policy": Policy(group=({"pattern": "pay", "stuck_after": 1},))},
        "started under another policy: .*--policy .*policy.toml",
    ),
    ({"code_version": "2.0"}, "started by version 1.0, this is 2.0"),
]


@pytest.mark.parametrize(("changed", "sentence"), CHANGES, ids=["policy", "code version"])
def test_policy_and_code_change_between_batches_but_not_within_one(tmp_path, changed, sentence):
    start(tmp_path)
    ran(tmp_path, OPERATOR, begun=3, finished=2)
    with pytest.raises(UserError, match=f"Batch 3 was {sentence}"):
        start(tmp_path, **changed)
    start(tmp_path)
    (tmp_path / "checkpoints" / OPERATOR / "commits" / "3").write_text("v1\n{}")
    start(tmp_path, **changed)


def test_a_state_of_an_older_release_is_refused_until_it_is_rebuilt(tmp_path):
    start(tmp_path)
    sentence = (
        "by the older release 1.0 and has version 1, .*: make it again from the archive with `rebalance-watch reb"
    )
    with pytest.raises(UserError, match=sentence):
        start(tmp_path, state_version=2)
    require_manifest(tmp_path / "checkpoints")


def test_a_state_of_a_newer_release_is_left_to_it(tmp_path):
    """By `rebuild`, too, which would replace it."""
    start(tmp_path, state_version=STATE_VERSION + 1)
    sentence = f"by the newer release 1.0 and has version {STATE_VERSION + 1}, .*: start that release again"
    with pytest.raises(UserError, match=sentence):
        start(tmp_path, state_version=STATE_VERSION)
    with pytest.raises(UserError, match=sentence):
        require_manifest(tmp_path / "checkpoints")


def test_a_batch_of_an_older_release_is_finished_before_a_rebuild(tmp_path):
    start(tmp_path)
    ran(tmp_path, OPERATOR, begun=3, finished=2)
    sentence = "Batch 3 was started by version 1.0: finish it with .* of that version, then rebuild with this one"
    with pytest.raises(UserError, match=sentence):
        require_manifest(tmp_path / "checkpoints")


def test_the_policy_of_an_unfinished_batch_can_be_given_back_to_run(tmp_path):
    group = ({"pattern": 'pay-"*"', "stuck_after": 3}, {"pattern": "*", "allocate_strategy": "AVG"})
    lists = {'10.0.0.5@"*"': ["Orders@😀:0"]}
    group += ({"pattern": "c", "allocate_strategy": "CONFIG", "message_queue_list": lists, "consumeridcs": ["é"]},)
    policy = Policy(stuck_after=1, group_memory=2, group=group)
    start(tmp_path, policy=policy)
    assert load_policy(tmp_path / "checkpoints" / "policy.toml") == policy


def elsewhere(root: Path) -> ObjectPlace:
    """A place as on HDFS or in an object store, with a copy of the manifest of a run."""
    start(root)
    place = ObjectPlace((root / "elsewhere").as_uri(), {}, root, 0)
    for query in QUERY_TABLES:
        (root / "elsewhere" / query).mkdir(parents=True)
    shutil.copy(root / "checkpoints" / MANIFEST, root / "elsewhere" / MANIFEST)
    return place


def test_thresholds_of_a_newer_release_are_no_obstacle_to_going_back(tmp_path):
    """Neither in the manifest of this root, nor beside checkpoints elsewhere, nor in that of before a rebuild."""
    place = elsewhere(tmp_path)
    before = read_manifest(tmp_path / "checkpoints")
    rebuilt = Folder(tmp_path / "checkpoints")
    of_before = rebuilt.before("5") / "manifest.json"
    of_before.parent.mkdir(parents=True)
    for file in (tmp_path / "checkpoints" / MANIFEST, tmp_path / "elsewhere" / MANIFEST, of_before):
        newer = json.loads(msgspec.json.encode(before))
        newer["basis"]["policy"]["of_a_newer_release"] = 7
        file.write_text(json.dumps(newer))
    assert read_manifest(tmp_path / "checkpoints") == before
    assert verify(tmp_path / "checkpoints", tmp_path / "tables", place) == before
    assert rebuilt.manifest_before("5") == before


def test_a_snapshot_interval_that_an_older_release_allowed_is_the_minimum(tmp_path):
    start(tmp_path, policy=Policy(snapshot_interval=1_001, group=({"pattern": "pay", "snapshot_interval": 1_002},)))
    file = tmp_path / "checkpoints" / "generation.json"
    file.write_text(file.read_text().replace("1001", "1").replace("1002", "2"))
    kept = read_manifest(tmp_path / "checkpoints").basis.policy
    assert kept == Policy(snapshot_interval=1_000, group=({"pattern": "pay", "snapshot_interval": 1_000},))


def test_a_torn_generation_file_is_refused_with_a_sentence(tmp_path):
    place = elsewhere(tmp_path)
    for folder in ("checkpoints", "elsewhere"):
        (tmp_path / folder / MANIFEST).write_text('{"generation":')
    with pytest.raises(UserError, match=r"checkpoints/generation\.json can't be read"):
        start(tmp_path)
    with pytest.raises(UserError, match=r"elsewhere/generation\.json can't be read"):
        verify(tmp_path / "checkpoints", tmp_path / "tables", place)


def test_a_table_whose_last_commit_is_gone_is_refused(tmp_path):
    start(tmp_path)
    ran(tmp_path, OPERATOR, begun=0, finished=0)
    wrote(tmp_path, OPERATOR, "anomalies", 0)
    last = DeltaTable(tmp_path / "tables" / "anomalies").version()
    note_last_commits(tmp_path / "checkpoints" / OPERATOR, {"anomalies": last})
    start(tmp_path)
    (tmp_path / "tables" / "anomalies" / "_delta_log" / f"{last:020}.json").unlink()
    with pytest.raises(UserError, match=rf"anomalies ends with commit {last - 1}, but the operator .* commit {last},"):
        start(tmp_path)
