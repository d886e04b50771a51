"""Limits on everything that is received: bytes, depth, counts and time. What exceeds one is refused with a sentence.

Each is well above what the real parts send; `LIMITS.md` lists them.
"""

from typing import Final

from rebalance_model.entities import NAME_CHARACTERS_MAX, NATURAL_MAX, TIME_MAX
from rebalance_model.observe.events import OFFSET_MAX
from rebalance_model.observe.events.decoding import DEPTH_MAX, VALUE_BYTES_MAX

FRAME_BYTES: Final = 16_777_216
"""Bytes of one frame of RocketMQ's protocol, header and body (com.rocketmq.remoting.frameMaxLength: Netty refuses
more), and of what Kafka answers in the handshake at the start."""
ANSWER_DEPTH: Final = 64
"""Nested objects and lists in an answer of RocketMQ; its own nest less than ten deep."""
ANSWER_VALUES: Final = 1_000_000
"""Values in an answer of RocketMQ, after its references (`$ref`) are replaced; 4,096 queues of a client are 70,000."""
ANSWER_SECONDS: Final = 1.0
"""Seconds of processor time to read one answer of RocketMQ; 4,096 queues take 0.2."""
ANSWER_KEY_CHARACTERS: Final = 4_096
"""Characters of a message queue that an answer of RocketMQ has as a key written as a string."""
ANSWER_AT_ONCE_BYTES: Final = 65_536
"""Bytes of an answer that the collector reads beside its other work; a larger one is read in a thread of its own."""
FRAME_HEADER_BYTES: Final = 65_536
"""Bytes of the header of a frame of more than 1 MB by which its request is found before the rest has arrived. A frame
with a longer one is received whole if any request of its server is pending."""
SKIPPED_FRAME_BYTES: Final = 67_108_864
"""Bytes of a frame beyond `FRAME_BYTES` that is received and dropped, which fails its own request; the connection of a
server that announces a longer one, or sends so many bytes in a row that answer nothing, is closed."""
LARGE_FRAMES_BYTES: Final = 134_217_728
"""Bytes of all frames of more than 1 MB that are being received and read. Beyond it the one that arrives slowest is
dropped, and fails its own request."""
SERVER_READING_BYTES: Final = 33_554_432
"""Bytes of one server's answers above `ANSWER_AT_ONCE_BYTES` that wait to be read; a further one fails its own
request."""
LARGE_ANSWERS_BYTES_A_SECOND: Final = 10_000_000
"""Bytes of answers of more than 1 MB about a broker's groups, and again about its clients, that are asked for in a
second: one at a time, after all others. A subject without one for ten minutes is asked like the others."""
LARGE_ANSWERS_KEPT: Final = 10_000
"""Groups and clients that are known for large answers; beyond it the first is forgotten."""
FRAME_SECONDS: Final = 10.0
"""Seconds from the first to the last byte of a frame; the connection of a server that takes longer is closed."""
FRAME_STALLED_SECONDS: Final = 3.0
"""Seconds without a further byte of a frame, and for all of one of at most `ANSWER_AT_ONCE_BYTES`, after which the
connection is closed. All requests that waited there are asked again one at a time, after the others: one of their
answers does not end."""
GROUP_READING_SHARE: Final = 0.25
"""The part of an interval that reading the answers of one group's clients may take, as processor time, and at least one
second; the same for the brokers' answers about a group, a topic's routes, and a server's own lists. Further ones are
errors in this round. 1,000 clients of 10 queues each take 0.5 s."""
ROUND_READING_SHARE: Final = 0.75
"""The part of an interval that reading all answers may take. Servers and subjects share it: one that has taken more
than its share is read again when its share of later rounds has made up for it. An answer of at most
`ANSWER_AT_ONCE_BYTES` is still read while its subject has taken less than 0.1 s, and its server its share."""
READING_QUEUE_SECONDS: Final = 2.0
"""Seconds, as estimated by their bytes, of the answers that wait to be read in the thread for large ones; a further one
of more than 1 MB fails its own request."""
UNREADABLE_KEPT: Final = 8
"""Fields of an answer that can't be read and are named; the others are not."""
UNREADABLE_CHARACTERS: Final = 300
"""Characters of such a name with its reason."""
BROKERS: Final = 1_000
"""Brokers of one set of name servers that are polled. Further ones are left out, and said so; a new one takes the place
of one that has never answered."""
BROKER_FORGOTTEN_MS: Final = 25 * 3_600_000
"""Milliseconds after which a broker that no name server lists, and that does not answer, is no longer polled: longer
than `broker_gone_after`, after which its incidents end."""
PROBE_SECONDS: Final = 3.0
"""Seconds that a broker or proxy has to answer anything, if it did not the last time, before it is asked for more."""
FIRST_PROBES: Final = 256
"""Brokers that were never asked and are probed at a time."""
MISSED_PROBES: Final = 32
"""Brokers that have answered before, but not the last time, and are probed at a time: first the one that answered last.
With 3 s for each, 96 are probed in a round of 9 s."""
SILENT_PROBES: Final = 16
"""Brokers that have never answered and are probed at a time; they take turns."""
GROUP_FORGOTTEN_MS: Final = 60_000
"""Milliseconds for which a broker is still asked about a group that it no longer lists, and without members there; for
at most `SILENT_BROKER_GROUPS` of them."""
LOOKUPS: Final = 64
"""Host names that are looked up at a time for the brokers of one set of name servers; a further one fails until then.
Each takes a thread, for as long as the name servers of its domain let it."""
GROUP_TOPICS: Final = 100
"""Topics of a group whose routes, and waiting times at a broker, a round asks for: first those with offsets. Of a group
with more they take turns."""
ROUND_TOPICS: Final = 5_000
"""Topics whose routes a round asks for, of all groups together: each gets its share of them, but at least
`GROUP_TOPICS_MIN` and at most `GROUP_TOPICS`."""
GROUP_TOPICS_MIN: Final = 10
"""Topics of a group whose routes a round asks for, however many groups there are."""
FIRST_ROUTE_SECONDS: Final = 2.0
"""Seconds for which a group's members, and its offsets, wait for the first routes of their topics."""
GROUPS_WAITING: Final = 4_000
"""Groups of a broker that have begun a round and not ended it, because they wait for the first routes of topics."""
PLACE_SECONDS: Final = 0.5
"""Seconds for which a request to a broker keeps its place of `collector.parallelism` while others wait; then one of
them is sent, and the late one may still be answered."""
LATE_REQUESTS: Final = 256
"""Late requests of a broker that are open at a time beside those that have a place."""
MEMBERS_ASKED: Final = 128
"""Clients of one broker that are asked at a time, at most. It begins with half of `collector.parallelism`, because one
that does not answer takes a thread of its broker for 10 s, and grows while the broker answers at once."""
LISTENER_QUEUES: Final = 1_000
"""Queues of one client that are watched for a listener which finishes nothing (`collector.stacks_after_ms`)."""
LISTENER_QUEUES_OF_ALL: Final = 200_000
"""Queues of all clients that are watched for that: with many clients each has an equal part, and ten at least."""
SILENT_BROKER_GROUPS: Final = 1_000
"""Groups of a broker that does not answer which a round reports as not answered; beyond it they take turns."""
STACK_CHARACTERS: Final = 4_000_000
"""Characters of a client's thread dump that are read."""
STACK_THREADS: Final = 20
"""Threads of a client's thread dump that are kept; a consumer consumes in 20 by default."""
STACK_FRAMES: Final = 64
"""Frames of such a thread that are kept, from the top."""
STACK_FRAME_CHARACTERS: Final = 300
"""Characters of such a frame, or of the thread's name, that are kept."""
ROUTE_QUEUES: Final = 100_000
"""Queues of one topic in a route, of all brokers."""
REMARK_CHARACTERS: Final = 1_000
"""Characters of an error's text that are kept; the rest is cut."""
EVENT_BYTES: Final = VALUE_BYTES_MAX
"""Bytes of one event of the telemetry log; a larger one is rejected and recorded as such."""
EVENT_DEPTH: Final = DEPTH_MAX
"""Nested objects and lists in an event, also in fields that no event has; a deeper one is rejected."""
NAME_CHARACTERS: Final = NAME_CHARACTERS_MAX
"""Characters of a topic, group, broker, cluster, source or client id, a channel, or a reason; an event with a longer
one is rejected."""
EVENT_OFFSET: Final = OFFSET_MAX
"""The highest offset of a queue in an event; no queue gets as many messages. An event with a higher one is rejected."""
EVENT_NUMBER: Final = NATURAL_MAX
"""The highest count, duration or id in an event; readers of JSON know no higher number exactly."""
EVENT_TIME: Final = TIME_MAX
"""The highest time in an event, epoch milliseconds: the end of the year 9999. Its `time` is also at most 25 hours past
the log's own stamp."""
PROXIES: Final = 32
"""Proxies of one set of name servers that may be configured; a cluster's proxies know the clients of each other."""
SPOOL_FOLDERS: Final = 500
"""Spools that a shipper has open at a time; each takes one of the process's open files, often 1,024. The oldest are
first; the log says that there are more, and they wait, unchanged, until others are finished."""
SPOOL_NAMES: Final = 1_000_000
"""Names in a spool, or in a folder of spools. With more it is not read, which the log says, until it has fewer:
nothing of it is lost, and the other spools are shipped. At a file in 10 s that is 115 days without Kafka."""
SPOOL_LINES: Final = 20_000
"""Lines of a spool that are sent at a time (and about 2 MiB), before it is the next spool's turn."""
SPOOL_WARNINGS: Final = 20
"""Different warnings about one spool, or one folder of spools, that are logged, each once; further ones are not, until
the next start."""
REPLY_BYTES: Final = 65_536
"""Bytes of the answer of a webhook, an Alertmanager or a token server that are read; a channel's `timeout` is for the
whole request, until the end of the answer."""
SQL_CHARACTERS: Final = 100_000
"""Characters of a user's own SQL."""
SQL_QUERIES: Final = 2
"""Users' queries that the dashboard runs at a time, each in a process of its own; the next one is refused."""
SQL_MEMORY_BYTES: Final = 2_000_000_000
"""Bytes that a user's query may allocate, beyond the open tables. DuckDB's own limit is half of it, from where it
spills to disk; strings that a function makes are beside that."""
SPILL_BYTES: Final = 10_000_000_000
"""Bytes on disk for sorts and aggregates that do not fit into memory, for each process with open tables."""
SQL_ANSWER_BYTES: Final = 64_000_000
"""Bytes of a user's result as JSON; `web.sql_rows` limits its rows and `web.sql_seconds` its time."""
SUITE_ROWS: Final = 1_000_000
"""Rows that the query of a suite about the tables returns; a suite with more has failed."""
WHAT_IF_CLIENTS: Final = 1_000
"""Clients that are named, or join, in a prediction of an allocation."""
REBALANCES: Final = 10_000
"""Rebalances in an answer of the REST API."""
REQUEST_BYTES: Final = 1_000_000
"""Bytes of the body of a request to the dashboard, and of a message of its websocket."""
CONNECTIONS: Final = 1_000
"""Connections to the port of the dashboard or of `metrics`; fewer where the process may have fewer files open. The one
beyond them closes another: of the sender with the most, the oldest that the server waits for, else the newest
websocket. Only if all are requests at work, it is closed itself."""
SENDER_CONNECTIONS: Final = 200
"""Connections from one address (a /64 of IPv6; all of this machine's own together), of which the one beyond them closes
another in the same way. It is not for a proxy of `web.trusted_proxies`."""
PROBE_CONNECTIONS: Final = 32
"""Connections to the port of the probes of a process that has no other one (`[health]`)."""
OWN_FILES: Final = 300
"""Files that a process keeps for its own work of those that it may have open, at most half of them; connections get the
rest."""
OPEN_FILES: Final = 65_536
"""Files that a process may have open at most: at its start it asks for that many, or as many as the system allows."""
HEADER_BYTES: Final = 65_536
"""Bytes of a request's line and headers that are kept while they are not whole; more are answered with 400."""
HEADER_SECONDS: Final = 10.0
"""Seconds for the handshake of TLS, and for a request's header, from when the server waits for it."""
BODY_SECONDS: Final = 30.0
"""Seconds for a request's body, after its header."""
UNREAD_SECONDS: Final = 30.0
"""Seconds for which a client may leave an answer unread, and for the end of a connection."""
REFUSALS_SECONDS: Final = 60.0
"""Seconds between two lines of a server's log about the connections that it has closed, with their number, or about the
requests that it can't read."""
ECHO_CHARACTERS: Final = NAME_CHARACTERS_MAX
"""Characters of a word that an error repeats, such as a name that does not exist or a value that is none; the rest is
cut. The name of a tool, resource or method of MCP that is longer is refused."""
SENTENCE_CHARACTERS: Final = 4_000
"""Characters of an error over HTTP or MCP; the rest is cut."""
METRIC_GROUPS: Final = 10_000
"""Consumer groups that have series in `/metrics`: first those that are not OK, then by name; how many are left out is
a series, too."""
OTLP_SPANS: Final = 4_096
"""Spans that wait for the OpenTelemetry collector, in each process; beyond it the oldest are lost, and counted."""
LOGIN_FORM_BYTES: Final = 8_192
"""Bytes of the login form, which anybody may send."""
LOGIN_FAILURES: Final = 10
"""Wrong tokens from one address within a minute; after that, until the minute ends, one of its tokens is compared a
second, and wrong ones are answered with 429."""
LOGIN_TURNS: Final = 5
"""Tokens of such an address that wait for their second; further ones are refused."""
