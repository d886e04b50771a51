"""The lines of a process: sentences for people, JSON for a log collector."""

import json
import logging
from asyncio import CancelledError

from streaming.base.lines import Seldom, print_error, print_line, start_lines


def printed(capsys):
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_line_in_json_has_time_level_process_event_and_its_fields(capsys):
    start_lines("json", "run").info("operator batch 3: 5 rows", query="operator", batch=3)
    [line] = printed(capsys)
    assert list(line) == ["time", "level", "process", "event", "query", "batch"]
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info", "process": "run", "event": "operator batch 3: 5 rows", "query": "operator", "batch": 3,
    }  # fmt: skip


def test_a_sentence_is_printed_as_it_is(capsys):
    start_lines("console", "run").info("operator batch 3: 5 rows", query="operator")
    assert capsys.readouterr().err == "operator batch 3: 5 rows\n"


def test_fields_are_shown_where_the_event_is_no_sentence(capsys):
    start_lines("console", "collect poll", "fields").info("round", groups=3)
    said = capsys.readouterr().err
    assert "info" in said
    assert "groups=3" in said


def test_control_characters_in_a_name_do_not_reach_the_terminal(capsys):
    start_lines("console", "collect spool", "fields").warning("skipped", spool="\x1b[31m@1\n消费\udcff")
    assert "spool=\\x1b[31m@1\\n消费\\udcff\n" in capsys.readouterr().err


def test_errors_and_the_lines_of_libraries_have_the_same_form(capsys):
    start_lines("json", "dashboard")
    print_error("Setting a.b: wrong.")
    try:
        int("x")
    except ValueError:
        logging.getLogger("streaming.serve.store").exception("refreshing failed")
    print_line("2 rows", rows=2)
    error, library, line = printed(capsys)
    assert (error["level"], error["event"]) == ("error", "Setting a.b: wrong.")
    assert (library["level"], library["event"], library["process"]) == ("error", "refreshing failed", "dashboard")
    assert "ValueError" in library["exception"]
    assert (line["event"], line["rows"]) == ("2 rows", 2)


def fail(logger):
    try:
        raise ConnectionResetError(104, "Connection reset by peer")
    except OSError as error:
        logger.exception("Error sending request data: %s", error)  # noqa: TRY401  as kafka-python does
        logger.exception("closed")


def test_a_lost_connection_of_a_library_is_a_line_without_traceback(capsys):
    start_lines("json", "collect poll")
    fail(logging.getLogger("kafka.net.transport"))
    sending, closed = printed(capsys)
    assert sending["event"] == "Error sending request data: [Errno 104] Connection reset by peer"
    assert closed["event"] == "closed: [Errno 104] Connection reset by peer"
    assert "exception" not in sending | closed


def test_an_error_about_a_file_keeps_its_place(capsys, tmp_path):
    start_lines("json", "dashboard")
    try:
        (tmp_path / "none").read_bytes()
    except FileNotFoundError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n")
    [line] = printed(capsys)
    assert "in test_an_error_about_a_file_keeps_its_place" in line["exception"]


def test_a_request_that_ends_with_the_server_is_a_line_without_traceback(capsys):
    start_lines("json", "dashboard")
    error = CancelledError("Task cancelled, timeout graceful shutdown exceeded")
    logging.getLogger("uvicorn.error").error("Exception in ASGI application\n", exc_info=error)
    [line] = printed(capsys)
    assert line["event"] == "Exception in ASGI application: Task cancelled, timeout graceful shutdown exceeded"
    assert "exception" not in line


def test_the_same_without_json(capsys):
    start_lines("console", "collect poll")
    record = logging.makeLogRecord({"msg": "closed", "exc_info": (OSError, OSError("gone"), None)})
    logging.lastResort.handle(record)
    assert capsys.readouterr().err == "closed: gone\n"


def test_without_json_an_error_is_a_line_for_people(capsys):
    print_error("Setting a.b: wrong [sic].")
    assert capsys.readouterr().err == "error: Setting a.b: wrong [sic].\n"


def test_a_sentence_that_anybody_can_cause_is_said_seldom(caplog):
    clock = iter([0.0, 1.0, 59.0, 60.0, 61.0]).__next__
    logger = logging.getLogger("tests.seldom")
    logger.addFilter(Seldom(clock=clock))
    for number in range(4):
        logger.warning("invalid request %s", number)
    logger.warning("another sentence")
    assert [record.getMessage() for record in caplog.records] == [
        "invalid request 0", "invalid request 3 (and 2 more that were not printed)", "another sentence",
    ]  # fmt: skip


def test_an_error_repeats_a_long_word_in_part(capsys):
    print_error(f"No group has the name {'x' * 100_000}: correct it.")
    said = capsys.readouterr().err
    assert len(said) < 2_000
    assert said.rstrip().endswith("…: correct it.") or said.rstrip().endswith("… correct it.")
