"""The settings: defaults, what overrides them, and one sentence where they can't be used."""

import tomllib

import msgspec
import pytest

from rebalance_model.observe.policy import Policy
from streaming.base.errors import SettingsError, UserError
from streaming.base.settings import conf_file, load_policy, load_settings
from streaming.base.terminal import CONFIG_VARIABLE


def test_every_default_is_in_the_file_and_has_a_use():
    given = tomllib.loads(conf_file("default.toml").read_text())
    read = load_settings().model_dump()
    assert {section: set(names) for section, names in given.items()} == {
        section: set(names) for section, names in read.items()
    }


def test_the_environment_goes_over_the_users_file_over_the_defaults(tmp_path, monkeypatch):
    file = tmp_path / "mine.toml"
    file.write_text('[source]\nkind = "kafka"\ntopic = "mine"\n')
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    monkeypatch.setenv("REBALANCE_WATCH_SOURCE__TOPIC", "theirs")
    source = load_settings().source
    assert (source.kind, source.topic, source.partitions) == ("kafka", "theirs", 8)


def test_everything_lives_under_the_root(tmp_path):
    settings = load_settings(runtime={"root": tmp_path})
    runtime = settings.runtime
    for folder in (runtime.tables, runtime.checkpoints, runtime.jars, runtime.lab, settings.log_path):
        assert folder.parent == tmp_path


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("SOURCE__KIND", "pulsar", r"Setting source\.kind: .*'files' or 'kafka' \(it is 'pulsar'\)\."),
        ("SOURCE__PARTITION", "8", r"Unknown setting source\.partition: did you mean partitions\?"),
        ("JOB__MASTER", "local[4]", r"Setting job\.master: should be local, spark://.* \(it is 'local\[4\]'\)\."),
        ("SPARK", '{"spark.master": "yarn"}', r"Setting spark: spark\.master is set by job\.master\."),
        ("SPARK", '{"spark": {"ui": {"enabled": true}}}', r"Setting spark: write the full name .* in quotes: .*\."),
        ("SPARK", '{"executor.memory": "4g"}', r"Setting spark: write the full name of a property in quotes: .*\."),
        ("RUNTIME__ROOT", "/a%20b", r"Setting runtime\.root: .* '%20' in its path: choose another .*'/a%20b'\)\."),
        ("RUNTIME__ROOT", "/a[1]", r"Setting runtime\.root: .* '\[' in its path: choose another .*'/a\[1\]'\)\."),
        ("JOB__CORES", "0", r"Setting job\.cores: .*greater than or equal to 1 \(it is '0'\)\."),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(monkeypatch, variable, value, sentence):
    monkeypatch.setenv(f"REBALANCE_WATCH_{variable}", value)
    with pytest.raises(UserError, match=f"^{sentence}$"):
        load_settings()


def test_all_wrong_settings_are_named_at_once(monkeypatch):
    monkeypatch.setenv("REBALANCE_WATCH_SOURCE__KIND", "pulsar")
    monkeypatch.setenv("REBALANCE_WATCH_JOB__CORES", "0")
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert [sentence.split()[1] for sentence in refused.value.args] == ["source.kind:", "job.cores:"]


def test_a_list_in_the_environment_that_is_not_json_is_a_sentence(monkeypatch):
    monkeypatch.setenv("REBALANCE_WATCH_COLLECTOR__GROUPS", "orders-group")
    with pytest.raises(SettingsError, match=r"^Setting collector: one of its .* not valid JSON") as refused:
        load_settings()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("given", ["a:9876;b:9876", '["a:9876", "b:9876"]', '["a:9876;b:9876"]', " a:9876 ; b:9876;"])
def test_name_servers_may_be_given_in_rocketmqs_own_form(monkeypatch, given):
    monkeypatch.setenv("REBALANCE_WATCH_COLLECTOR__NAME_SERVERS", given)
    assert load_settings().collector.name_servers == ("a:9876", "b:9876")


@pytest.mark.parametrize(
    "address",
    ["a", "a:", ":1", "a:0", "a:99999", "a:" + "9" * 5_000, "a:²", "a:٣", "a b:1", "a..b:1", "a" * 64 + ":1",
     "[::1:1", "[x]:1", "http://a:1", "a\x7f:1"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["COLLECTOR__NAME_SERVERS", "COLLECTOR__PROXIES", "SOURCE__BOOTSTRAP_SERVERS"])
def test_an_address_that_is_none_stops_the_start_with_one_sentence(monkeypatch, name, address):
    monkeypatch.setenv(f"REBALANCE_WATCH_{name}", address)
    with pytest.raises(SettingsError, match="is not host:port") as refused:
        load_settings()
    assert len(refused.value.args) == 1


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:9876", "a_b.c-d:65535", "bücher.example:9876", "a.:1"])
def test_an_address_that_a_connection_can_be_opened_to_is_accepted(monkeypatch, address):
    monkeypatch.setenv("REBALANCE_WATCH_COLLECTOR__NAME_SERVERS", address)
    assert load_settings().collector.name_servers == (address,)


@pytest.mark.parametrize(
    ("collector", "sentence"),
    [
        ({"proxies": ["a:9876"]}, r"collector\.proxies: a:9876 is a name server"),
        ({"proxies": [f"p{n}:8080" for n in range(33)]}, r"collector\.proxies: .* at most 32"),
        ({"proxies": 8080}, r"collector\.proxies: .* valid tuple"),
        ({"proxies": ["p:8080"], "clusters": [{"name_servers": ["b:9876"]}]}, r"move collector\.proxies to the entry"),
        ({"clusters": [{"name_servers": ["b:1"], "proxies": ["b:1"]}]}, r"clusters\.1\.proxies: b:1 is a name server"),
        ({"clusters": [{"name_servers": ["b:1"], "proxies": ["b"]}]}, r"clusters\.1\.proxies.*'b' is not host:port"),
    ],
)
def test_proxies_that_can_not_be_meant_stop_the_start_with_one_sentence(collector, sentence):
    with pytest.raises(SettingsError, match=sentence) as refused:
        load_settings(collector={"name_servers": ["a:9876"]} | collector)
    assert len(refused.value.args) == 1


def test_proxies_belong_to_their_name_servers():
    settings = load_settings(collector={"name_servers": ["a:9876"], "proxies": ["p:8080"]})
    assert [(one.name_servers, one.proxies) for one in settings.collector.polled] == [(("a:9876",), ("p:8080",))]
    assert load_settings().collector.proxies == ()


def test_a_secret_is_never_shown(monkeypatch):
    monkeypatch.setenv("REBALANCE_WATCH_ROCKETMQ__SECRET_KEY", "hunter2")
    assert "hunter2" not in repr(load_settings())
    monkeypatch.setenv("REBALANCE_WATCH_ROCKETMQ__SECRET_KYE", "hunter2")
    with pytest.raises(UserError, match=r"rocketmq\.secret_kye") as refused:
        load_settings()
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(("content", "sentence"), [(None, "does not exist"), ("[source\n", "is not valid TOML")])
def test_a_settings_file_that_cant_be_read_is_named(tmp_path, monkeypatch, content, sentence):
    file = tmp_path / "mine.toml"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    with pytest.raises(UserError, match=sentence) as refused:
        load_settings()
    assert str(file) in str(refused.value)


def test_the_policy_file_has_every_threshold():
    given = tomllib.loads(conf_file("policy.toml").read_text())
    assert load_policy() == Policy()
    assert set(given) == {field.name for field in msgspec.structs.fields(Policy)} - {"group"}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "does not exist"),
        ("a = \n", "TOML"),
        ("zzz = 1\n", r"can't be used: unknown setting zzz\.$"),
        ("stuck_aftr = 1\n", r"can't be used: unknown setting stuck_aftr: did you mean stuck_after\?$"),
        ("[[group]]\npattern = 'pay-*'\nstuck_aftr = 1\n", r"\[\[group\]\] pay-\*: unknown .* mean stuck_after\?$"),
        ("stuck_after = '1m'\n", r"can't be used: stuck_after: expected a whole number, got text\.$"),
        ("[[group]]\npattern = 'pay-*'\nstuck_after = '1m'\n", r"pay-\*: stuck_after: expected a whole number"),
    ],
)
def test_a_policy_that_cant_be_used_is_named(tmp_path, content, sentence):
    file = tmp_path / "policy.toml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UserError, match=sentence):
        load_policy(file)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            '[collector]\nname_server = ["a:9876"]\n',
            "Unknown setting collector.name_server: did you mean name_servers?",
        ),
        ('name_servers = ["a:9876"]\n', "Unknown setting name_servers: did you mean collector.name_servers?"),
        ("[colector]\n", "Unknown setting colector: did you mean collector?"),
        ("[log]\ncolour = 1\n", "Unknown setting log.colour: use format."),
        ('[web]\ntokn = "hunter2"\n', "Unknown setting web.tokn: did you mean token?"),
        ('[source]\nkind = "kafak"\n', "Setting source.kind: should be 'files' or 'kafka': did you mean kafka?"),
        ("[job]\ncores = 0\n", "Setting job.cores: should be greater than or equal to 1 (it is 0)."),
        ("[[collector.clusters]]\n", "Setting collector.clusters.1.name_servers: is missing."),
    ],
)
def test_a_wrong_setting_is_said_in_the_words_of_its_user(tmp_path, monkeypatch, content, sentence):
    file = tmp_path / "settings.toml"
    file.write_text(content)
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert str(caught.value) == sentence


def test_a_wrong_variable_of_the_environment_is_an_unknown_setting(monkeypatch):
    monkeypatch.setenv("REBALANCE_WATCH_COLLECTOR__NAME_SERVER", '["a:9876"]')
    with pytest.raises(SettingsError, match=r"collector\.name_server: did you mean name_servers\?"):
        load_settings()


def test_a_cluster_has_its_own_name_servers_and_what_differs_in_security(tmp_path, monkeypatch):
    file = tmp_path / "settings.toml"
    file.write_text(
        """
        [rocketmq]
        access_key = "monitor"
        secret_key = "hunter2"
        [[collector.clusters]]
        name_servers = ["10.1.0.5:9876"]
        [[collector.clusters]]
        name_servers = ["10.2.0.5:9876"]
        names = { DefaultCluster = "tokyo" }
        rocketmq = { tls = true, secret_key_file = "tokyo.key" }
        """
    )
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    settings = load_settings()
    first, second = settings.collector.polled
    assert settings.rocketmq.of(first.rocketmq) == settings.rocketmq
    tokyo = settings.rocketmq.of(second.rocketmq)
    assert (tokyo.tls, tokyo.access_key, tokyo.secret_key_file) == (True, "monitor", "tokyo.key")
    assert tokyo.secret_key.get_secret_value() == ""  # the other one's: the file replaces it
    assert second.names == {"DefaultCluster": "tokyo"}
    file.write_text(file.read_text().replace("secret_key_file =", "secret_key ="))
    with pytest.raises(SettingsError, match=r"collector\.clusters\.2\.rocketmq\.secret_key: did you mean secret_key_f"):
        load_settings()


def test_name_servers_alone_are_one_entry():
    (only,) = load_settings().collector.polled
    assert (only.name_servers, only.names) == (("127.0.0.1:9876",), {})
