"""Installation where the program runs for years: `make install`, systemd units, a container, Kubernetes."""

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from streaming.base.limits import OPEN_FILES
from streaming.base.settings import load_settings
from streaming.cli.main import app

ROOT = Path(__file__).parent.parent
UNITS = ROOT / "conf" / "systemd"
COMMON = UNITS / "rebalance-watch-.service.d" / "common.conf"
CONTAINER = ROOT / "conf" / "container" / "Containerfile"
IGNORED = CONTAINER.with_suffix(".dockerignore")
KUBERNETES = ROOT / "conf" / "kubernetes"
PREFIX = "/opt/rebalance-watch"
SETTING = re.compile(r"(REBALANCE_WATCH_\w+)=(\S+)")


def services() -> dict[str, str]:
    """The arguments of each service's program."""
    return {
        unit.stem: re.search(rf"^ExecStart={PREFIX}/bin/rebalance-watch (.*)$", unit.read_text(), re.MULTILINE)[1]
        for unit in sorted(UNITS.glob("*.service"))
    }


def containers() -> dict[str, dict]:
    """The containers of the program in the compose file, by service."""
    composed = yaml.safe_load(CONTAINER.with_name("compose.yaml").read_text())
    return {name: one for name, one in composed["services"].items() if one["image"] == "rebalance-watch"}


def pods() -> dict[str, dict]:
    """The pods of the manifests, by file."""
    files = [KUBERNETES / "poll.yaml", KUBERNETES / "watch.yaml", KUBERNETES / "alert" / "alert.yaml"]
    return {file.stem: yaml.safe_load(file.read_text())["spec"]["template"]["spec"] for file in files}


def pod_containers() -> dict[str, dict]:
    """The containers of all pods, by command."""
    return {" ".join(one["args"]): one for pod in pods().values() for one in pod["containers"]}


def network_policies(*files: str) -> list[dict]:
    """The network policies of the manifests."""
    texts = [(KUBERNETES / file).read_text() for file in files or ("network.yaml",)]
    return [document["spec"] for text in texts for document in yaml.safe_load_all(text)]


def secrets_of(container: dict) -> dict[str, bool]:
    """The Secrets that a container gets, and whether each must exist."""
    references = [source["secretRef"] for source in container["envFrom"]]
    return {one["name"].removeprefix("rebalance-watch-"): not one.get("optional", False) for one in references}


def may_reach(labels: dict[str, str], *files: str) -> set[int]:
    """The TCP ports to which a pod may connect."""
    chosen = [spec for spec in network_policies(*files) if spec["podSelector"]["matchLabels"].items() <= labels.items()]
    assert any("Egress" in spec["policyTypes"] for spec in chosen)
    ports = [port for spec in chosen for rule in spec.get("egress") or () for port in rule["ports"]]
    return {port["port"] for port in ports if port["protocol"] == "TCP"}


def test_systemd_accepts_the_units(tmp_path):
    """It only warns of an unknown key, so nothing may be printed."""
    shutil.copytree(UNITS, tmp_path / "units")
    units = [*(tmp_path / "units").glob("*.service"), *(tmp_path / "units").glob("*.target")]
    for unit in units:
        unit.write_text(unit.read_text().replace(f"{PREFIX}/bin/rebalance-watch", shutil.which("true")))

    verify = ["systemd-analyze", "verify", "--man=no", *units]
    done = subprocess.run(verify, check=False, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("service", services())
def test_a_service_runs_a_command_that_exists(service):
    arguments = services()[service].split()

    assert CliRunner().invoke(app, [*arguments, "--help"]).exit_code == 0


def test_every_long_running_process_has_a_service_and_a_container():
    processes = ["alert run", "collect poll", "dashboard", "maintain --every 1m", "run"]
    beside_a_broker = "collect spool ${SPOOL}"

    assert sorted(services().values()) == sorted([*processes, beside_a_broker])
    assert sorted(" ".join(one["command"]) for one in containers().values()) == sorted([*processes, "topic create"])
    assert sorted(pod_containers()) == processes


@pytest.mark.parametrize("name", ["alert", "dashboard", "maintain", "poll", "run", "topic"])
def test_a_container_gets_settings_that_exist(name, monkeypatch):
    for variable, value in containers()[name]["environment"].items():
        monkeypatch.setenv(variable, value if "$" not in value else "a-token-of-some-length")

    assert load_settings().collector.name_servers == ("namesrv:9876",)


@pytest.mark.parametrize("command", pod_containers())
def test_a_container_of_a_pod_is_probed_where_its_process_answers(command, monkeypatch):
    container = pod_containers()[command]
    environment = {one["name"]: one["value"] for one in container["env"]}
    assert environment["REBALANCE_WATCH_CONFIG"] == "/etc/rebalance-watch/settings.toml"
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("REBALANCE_WATCH_CONFIG", str(KUBERNETES / "settings.toml"))
    monkeypatch.setenv("REBALANCE_WATCH_WEB__TOKEN", "a-token-of-some-length")

    settings = load_settings()

    process = container["name"]
    host, port = (settings.web.host, settings.web.port) if process == "dashboard" else (
        settings.health.host, getattr(settings.health, process)
    )  # fmt: skip
    [declared] = container["ports"]
    assert (host, port) == ("0.0.0.0", declared["containerPort"])
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": declared["name"]}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": declared["name"]}


@pytest.mark.parametrize("name", pods())
def test_a_pod_has_the_volumes_that_its_containers_mount(name):
    pod, watch = pods()[name], yaml.safe_load((KUBERNETES / "watch.yaml").read_text())["spec"]
    ports = [port["containerPort"] for one in pod["containers"] for port in one["ports"]]

    mounted = {mount["name"] for one in pod["containers"] for mount in one["volumeMounts"]}
    given = {volume["name"] for volume in pod["volumes"]}
    if name != "poll":  # the alerts' container is added to the pod `watch`
        given |= {volume["name"] for volume in watch["template"]["spec"]["volumes"]}
        given |= {claim["metadata"]["name"] for claim in watch["volumeClaimTemplates"]}
    assert mounted <= given
    assert len(set(ports)) == len(ports)


@pytest.mark.parametrize("name", pods())
def test_a_pod_writes_to_its_volumes_alone(name):
    pod = pods()[name]
    for container in (*pod["containers"], *pod.get("initContainers", ())):
        assert container["securityContext"]["readOnlyRootFilesystem"], container["name"]
        assert {"/tmp", "/var/lib/rebalance-watch"} <= {mount["mountPath"] for mount in container["volumeMounts"]}


def test_a_container_gets_the_secrets_that_it_needs_and_no_others():
    secrets = {command: set(secrets_of(container)) for command, container in pod_containers().items()}
    assert secrets == {
        "alert run": {"alerts", "storage", "otlp"},
        "collect poll": {"kafka", "rocketmq", "otlp"},
        "dashboard": {"web", "storage", "otlp"},
        "maintain --every 1m": {"storage", "otlp"},
        "run": {"kafka", "storage", "otlp"},
    }
    needed = {name for one in pod_containers().values() for name, is_needed in secrets_of(one).items() if is_needed}
    assert needed == {"web"}  # without a token it listens on no address of a pod
    for pod in pods().values():
        assert [set(secrets_of(one)) for one in pod.get("initContainers", ())] in ([], [{"kafka"}])
    monitor = yaml.safe_load((KUBERNETES / "monitor" / "monitor.yaml").read_text())["spec"]
    [endpoint] = monitor["endpoints"]
    assert endpoint["authorization"]["credentials"]["name"] == "rebalance-watch-web"
    explained = (KUBERNETES / "kustomization.yaml").read_text()
    assert all(f"-{name}" in explained for names in secrets.values() for name in names)


def test_a_pod_connects_to_what_its_settings_name_and_nowhere_else():
    settings = tomllib.loads((KUBERNETES / "settings.toml").read_text())
    kafka = int(settings["source"]["bootstrap_servers"].rpartition(":")[2])
    [name_server] = [int(one.rpartition(":")[2]) for one in settings["collector"]["name_servers"]]
    poll, watch = ({"app": "rebalance-watch", "process": name} for name in ("poll", "watch"))
    dns, brokers = 53, 10_911

    assert may_reach(poll) == {dns, kafka, name_server, brokers}
    assert may_reach(watch) == {dns, kafka}
    assert may_reach(watch, "network.yaml", "alert/network.yaml") == {dns, kafka, 443, 9_093, 587}


@pytest.mark.parametrize("name", containers())
def test_a_container_of_compose_has_no_rights(name):
    container = containers()[name]
    assert (container["read_only"], container["cap_drop"]) == (True, ["ALL"])
    assert container["security_opt"] == ["no-new-privileges:true"]
    [folder] = container["tmpfs"]
    assert folder.startswith("/tmp:exec")  # Docker's own has noexec: Java could load no library from there


def test_a_service_may_have_as_many_files_open_as_a_process_asks_for():
    [allowed] = re.findall(r"^LimitNOFILE=(\d+)$", COMMON.read_text(), re.MULTILINE)
    assert int(allowed) >= OPEN_FILES
    assert "\nUMask=0027\n" in COMMON.read_text()


def test_what_is_beside_the_pods_leads_to_the_dashboard():
    service = yaml.safe_load((KUBERNETES / "dashboard.yaml").read_text())
    pod = yaml.safe_load((KUBERNETES / "watch.yaml").read_text())["spec"]["template"]
    monitor = yaml.safe_load((KUBERNETES / "monitor" / "monitor.yaml").read_text())["spec"]
    [rule] = yaml.safe_load((KUBERNETES / "ingress" / "ingress.yaml").read_text())["spec"]["rules"]
    policy, *_ = network_policies()

    [port] = service["spec"]["ports"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    [endpoint] = monitor["endpoints"]
    assert endpoint["port"] == port["name"]
    [path] = rule["http"]["paths"]
    assert path["backend"]["service"] == {"name": service["metadata"]["name"], "port": {"name": port["name"]}}
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    [allowed] = policy["ingress"]
    assert [one["port"] for one in allowed["ports"]] == [port["targetPort"]]
    for component in ("alert", "ingress", "monitor"):
        made = yaml.safe_load((KUBERNETES / component / "kustomization.yaml").read_text())
        for file in made.get("resources", []) + [one["path"] for one in made.get("patches", [])]:
            assert (KUBERNETES / component / file).is_file()


def test_a_service_of_compose_is_probed_where_its_process_answers(monkeypatch):
    for name, container in containers().items():
        if name == "topic":
            continue
        with monkeypatch.context() as patch:
            for variable, value in container["environment"].items():
                patch.setenv(variable, value if "$" not in value else "a-token-of-some-length")
            settings = load_settings()
        port = settings.web.port if name == "dashboard" else getattr(settings.health, name)
        assert f"127.0.0.1:{port}/healthz" in container["healthcheck"]["test"][-1]


def test_kubernetes_starts_what_the_image_is():
    shell = CONTAINER.read_text()
    claims = [mount["mountPath"] for mount in pod_containers()["run"]["volumeMounts"] if mount["name"] == "state"]

    assert claims == [re.search(r"^VOLUME (\S+)$", shell, re.MULTILINE)[1]]
    assert f"--uid {pods()['watch']['securityContext']['runAsUser']} " in shell


@pytest.mark.parametrize("file", [COMMON, CONTAINER], ids=["systemd", "container"])
def test_the_environment_of_an_installation_is_made_of_settings(file, monkeypatch):
    named = {name: value for name, value in SETTING.findall(file.read_text()) if "<" not in name}
    for name, value in named.items():
        monkeypatch.setenv(name, value)

    runtime = load_settings().runtime

    assert named
    assert (str(runtime.root), str(runtime.jars)) == ("/var/lib/rebalance-watch", f"{PREFIX}/jars")


def test_the_container_has_every_file_of_which_the_program_is_made():
    kept = {line[1:] for line in IGNORED.read_text().splitlines() if line[:1] == "!"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    packages = {name.removesuffix("*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert kept == packages | {"Makefile", "pyproject.toml", project["project"]["readme"], "LICENSE"}


class Image:
    """The files of a container file, below a folder instead of `/`, without the commands that only root may run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._at = folder
        self.environment: dict[str, str] = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        self.skipped: list[str] = []
        self.command: list[str] = []

    def make(self, file: Path) -> None:
        """Take all steps of the file; of several stages each goes on where the one before it has ended."""
        lines = re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE).replace("\\\n", " ").splitlines()
        for instruction, _, of in (line.partition(" ") for line in lines if line):
            getattr(self, f"_{instruction.lower()}")(of)

    def run(self, *command: str) -> None:
        """Run a program of the image."""
        subprocess.run(command, cwd=self._at, env=self.environment, check=True)

    def _from(self, _: str) -> None:
        self._at = self._folder

    def _run(self, arguments: str) -> None:
        if any(word in arguments for word in ("apt-get", "useradd")):
            self.skipped.append(arguments.split(maxsplit=1)[0])
        else:
            self.run("sh", "-ec", self._inside(arguments))

    def _copy(self, arguments: str) -> None:
        if not arguments.startswith("--from="):  # of another stage: here it is there already
            source, target = arguments.split()
            kept = {line[1:] for line in IGNORED.read_text().splitlines() if line[:1] == "!"}
            for name in kept if source == "." else ():
                into = self._path(target) / name
                into.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, into)

    def _workdir(self, arguments: str) -> None:
        self._at = self._path(arguments)
        self._at.mkdir(parents=True, exist_ok=True)

    def _env(self, arguments: str) -> None:
        for name, _, value in (one.partition("=") for one in arguments.split()):
            self.environment[name] = self._inside(value.replace("$PATH", self.environment["PATH"]))

    def _entrypoint(self, arguments: str) -> None:
        self.command = json.loads(arguments)

    def _cmd(self, arguments: str) -> None:
        self.command += json.loads(arguments)

    def _user(self, _: str) -> None: ...

    _volume = _healthcheck = _user

    def _path(self, path: str) -> Path:
        return self._folder / path.lstrip("/")

    def _inside(self, text: str) -> str:
        """Let absolute paths of the image's own folders be below this one."""
        return re.sub(r"(?<![\w.])/(?=(?:opt|source|var/lib/rebalance-watch)\b)", f"{self._folder}/", text)


@pytest.mark.prove
def test_the_steps_of_the_container_file_make_a_program_that_runs_the_demo(tmp_path):
    image = Image(tmp_path)
    image.make(CONTAINER)

    pip = tmp_path / PREFIX.lstrip("/") / "bin" / "pip"
    assert "pytest" not in subprocess.run([pip, "list"], capture_output=True, text=True, check=True).stdout
    assert image.skipped == ["mkdir", "apt-get", "useradd"]
    image.run(*image.command, "--help")
    image.run(image.command[0], "demo")


@pytest.mark.prove
def test_a_machine_that_only_reads_installs_no_spark(tmp_path):
    prefix = tmp_path / "installed"
    subprocess.run(["make", "install", f"PREFIX={prefix}", "EXTRAS="], cwd=ROOT, check=True)
    shown = subprocess.run([prefix / "bin" / "pip", "list"], capture_output=True, text=True, check=True).stdout

    assert "spark" not in shown
    subprocess.run([prefix / "bin" / "rebalance-watch", "config", "check"], cwd=tmp_path, check=True)
