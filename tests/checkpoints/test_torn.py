"""Lost and torn files of a checkpoint that Spark has written: what a start mends, refuses, or leaves to a rebuild.

That the job then has the same rows is shown by `pipeline.test_torn_checkpoint`.
"""

import json
import shutil
import struct
import zlib

import pytest

from checkpoints.position import mend, position_of_query
from checkpoints.spark_files import check_state, checksum_of, is_as_written, mend_state, torn_state
from streaming.base.errors import UserError
from tests.upgrade.root import HERE, unpack

LAST = 2
"""The last batch of the release's root; its log is of files."""
STATE = "state/0"
ROWS_UNTIL_LAST, ROWS_BEFORE_LAST, NO_ROWS = (lambda: LAST), (lambda: LAST - 1), (lambda: -1)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    return unpack(HERE / "0.1.0.tar.xz", tmp_path_factory.mktemp("released")) / "checkpoints/operator"


@pytest.fixture
def operator(released, tmp_path):
    copy = shutil.copytree(released, tmp_path / "operator")
    description = copy / STATE / "_metadata/v2/0"  # which names the schema by its absolute path
    description.write_text(description.read_text().replace(str(released), str(copy)))
    return copy


def sum_up(file):
    """Write a file's checksums, as Hadoop does; a release's root is packed without them."""
    content = file.read_bytes()
    checks = (zlib.crc32(content[at : at + 512]) for at in range(0, len(content), 512))
    sums = b"".join(struct.pack(">I", one) for one in checks)
    checksum_of(file).write_bytes(b"crc\0" + struct.pack(">i", 512) + sums)


def files_in(folder):
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def plan_next(operator):
    """Plan one more batch, as Spark does before it hands over its rows."""
    plan = (operator / f"offsets/{LAST}").read_text().replace(f'"logOffset":{LAST}', f'"logOffset":{LAST + 1}')
    (operator / f"offsets/{LAST + 1}").write_text(plan)
    files = (operator / f"sources/0/{LAST}").read_text().replace(f'"batchId":{LAST}', f'"batchId":{LAST + 1}')
    (operator / f"sources/0/{LAST + 1}").write_text(files)


def of_kafka(checkpoint, *, plans):
    """Make what Spark leaves of a query over Kafka that planned batches and recorded none."""
    for folder in ("offsets", "sources/0"):
        (checkpoint / folder).mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id":"of the query"}')
    (checkpoint / "sources/0/0").write_bytes(b'\0v1\n{"t":{"0":0}}')
    for batch in range(plans):
        (checkpoint / f"offsets/{batch}").write_text('v1\n{"batchWatermarkMs":0}\n{"t":{"0":5}}')
    return checkpoint


def removed(file):
    file.unlink()


def emptied(file):
    file.write_bytes(b"")


def halved(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def zeroed(file):
    file.write_bytes(bytes(file.stat().st_size))


damaged = pytest.mark.parametrize("damage", [removed, emptied, halved, zeroed])


def test_whole_checkpoints_are_not_changed(operator):
    before = files_in(operator)
    mend(operator, ROWS_UNTIL_LAST)
    mend_state(operator)
    assert files_in(operator) == before
    assert torn_state(operator) is None


def test_a_query_that_has_not_begun_has_nothing_to_mend(tmp_path):
    mend(tmp_path, NO_ROWS)
    mend_state(tmp_path)
    assert torn_state(tmp_path) is None
    assert files_in(tmp_path) == {}


@damaged
def test_without_its_record_the_last_batch_is_repeated(operator, damage):
    before = files_in(operator)
    damage(operator / f"commits/{LAST}")
    mend(operator, ROWS_UNTIL_LAST)
    del before[f"commits/{LAST}"]
    assert files_in(operator) == before


@damaged
def test_a_batch_before_one_that_was_planned_was_finished(operator, damage):
    """Its rows are in the state: a rebuild must not take them for rows that are still to come."""
    plan_next(operator)
    position = position_of_query(operator)
    damage(operator / f"commits/{LAST}")
    mend(operator, ROWS_UNTIL_LAST)
    assert position_of_query(operator) == position
    assert (operator / f"commits/{LAST}").read_text().startswith("v1\n{")


@damaged
def test_a_plan_without_a_row_is_forgotten(operator, damage):
    before = files_in(operator)
    plan_next(operator)
    (operator / f"{STATE}/0/{LAST + 2}.changelog").write_bytes(b"of the plan that is forgotten")
    damage(operator / f"offsets/{LAST + 1}")
    (operator / f"sources/0/{LAST + 1}").write_bytes(b"")
    mend(operator, ROWS_UNTIL_LAST)
    mend_state(operator)
    assert files_in(operator) == before


@damaged
def test_a_plan_without_a_row_is_forgotten_without_its_list_of_files(operator, damage):
    before = files_in(operator)
    plan_next(operator)
    damage(operator / f"sources/0/{LAST + 1}")
    mend(operator, ROWS_UNTIL_LAST)
    assert files_in(operator) == before


def test_the_initial_offsets_of_a_log_in_kafka_have_their_zero_byte(tmp_path):
    """Without them a batch 0 that was planned begins at what Kafka has then: rows could be missing in silence."""
    first = of_kafka(tmp_path, plans=1) / "sources/0/0"
    sum_up(first)
    before = files_in(tmp_path)
    mend(tmp_path, NO_ROWS)
    assert files_in(tmp_path) == before


@damaged
def test_torn_initial_offsets_of_a_log_in_kafka_are_made_again(tmp_path, damage):
    """Of a query that was stopped before its first plan, as its id is: Spark could read neither."""
    damage(of_kafka(tmp_path, plans=0) / "sources/0/0")
    damage(tmp_path / "metadata")
    mend(tmp_path, NO_ROWS)
    assert files_in(tmp_path) == {}


@damaged
@pytest.mark.parametrize("file", [f"offsets/{LAST}", f"sources/0/{LAST}"])
def test_a_batch_with_rows_is_refused_without_its_plan(operator, damage, file):
    """Planned again it could have other rows, of which the tables would skip some."""
    damage(operator / file)
    with pytest.raises(UserError, match=rf"missing or not whole \({operator / file}\).*restore checkpoints and tables"):
        mend(operator, ROWS_UNTIL_LAST)


@damaged
def test_a_batch_is_refused_without_the_plan_of_the_one_before(operator, damage):
    plan_next(operator)
    damage(operator / f"offsets/{LAST}")
    with pytest.raises(UserError, match="not whole"):
        mend(operator, ROWS_BEFORE_LAST)


def test_a_list_that_was_cut_at_the_end_of_a_line_is_not_whole(operator):
    """Spark would read it, and read its other files a second time."""
    file = operator / f"sources/0/{LAST}"
    content = file.read_bytes()
    assert content.count(b"\n") > 1
    sum_up(file)
    assert is_as_written(file)
    file.write_bytes(content[: content.rindex(b"\n")])
    with pytest.raises(UserError, match="not whole"):
        mend(operator, ROWS_UNTIL_LAST)


@damaged
def test_the_checksums_themselves_may_be_torn(operator, damage):
    file = operator / f"offsets/{LAST}"
    sum_up(file)
    damage(checksum_of(file))
    mend(operator, ROWS_UNTIL_LAST)
    assert file.exists()
    left = checksum_of(file)
    assert not left.exists() or not left.read_bytes().startswith(b"crc")  # Hadoop ignores it, or fails at each start


@damaged
def test_the_id_of_a_query_is_made_again(operator, damage):
    damage(operator / "metadata")
    mend(operator, ROWS_UNTIL_LAST)
    assert len(json.loads((operator / "metadata").read_bytes())["id"]) == 36


@damaged
@pytest.mark.parametrize("file", ["0/3.changelog", "1/2.changelog", "_metadata/v2/0", "_stateSchema/default/0_*"])
def test_a_state_that_can_not_be_read_needs_a_rebuild(operator, damage, file):
    [state_file] = (operator / STATE).glob(file)
    sum_up(state_file)
    check_state(operator)
    damage(state_file)
    with pytest.raises(UserError, match=r"state is missing or not whole \(.*: make the state again .*watch rebuild`"):
        check_state(operator)


@damaged
@pytest.mark.parametrize("file", ["0/1.zip", "0/SSTs/*.sst"])
def test_without_a_snapshot_the_changes_before_it_are_needed(operator, damage, file):
    [found] = (operator / STATE).glob(file)
    sum_up(found)
    damage(found)
    assert torn_state(operator) is None
    (operator / STATE / "0/1.changelog").unlink()
    assert torn_state(operator) == operator / STATE / "0/1.changelog"


def test_a_state_of_which_a_partition_is_gone_needs_a_rebuild(operator):
    shutil.rmtree(operator / STATE / "1")
    assert torn_state(operator) is not None


def test_a_folder_that_can_not_be_read_is_not_taken_for_an_empty_one(operator):
    """Else the state would be taken for one of before the first batch, and removed."""
    for folder in ("offsets", "commits"):
        shutil.rmtree(operator / folder)
        (operator / folder).symlink_to(operator / folder)
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        mend_state(operator)
    assert (operator / STATE).exists()


def test_what_a_first_batch_has_left_of_a_state_is_removed(operator):
    """Its description may be torn, and it writes all of it again."""
    shutil.rmtree(operator / "commits")
    for batch in (1, 2):
        (operator / f"offsets/{batch}").unlink()
    mend_state(operator)
    assert not (operator / "state").exists()
    assert torn_state(operator) is None


def test_a_description_that_an_unrecorded_batch_has_left_torn_is_removed(operator):
    plan_next(operator)
    torn = operator / STATE / f"_metadata/v2/{LAST + 1}"
    torn.write_bytes(b"v2\n{")
    mend_state(operator)
    assert not torn.exists()
    assert torn_state(operator) is None


@damaged
@pytest.mark.parametrize("file", [f"offsets/{LAST}", f"sources/0/{LAST}"])
def test_a_position_that_can_not_be_read_is_a_sentence(operator, damage, file):
    damage(operator / file)
    with pytest.raises(UserError, match="not whole"):
        position_of_query(operator)
