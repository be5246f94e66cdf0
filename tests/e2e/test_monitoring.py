"""The monitoring kit: its rules by promtool, its configuration in a real Prometheus over a real service."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from ruamel.yaml import YAML

from tests.support.markdown import rows_of, section
from tests.support.missing_programs import missing
from tests.support.ports import free_ports
from tests.support.service_process import Service
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parent.parent.parent
KIT = ROOT / "monitoring"
DASHBOARD = json.loads((KIT / "grafana" / "dashboards" / "novikoff.json").read_text())
PAGE = (ROOT / "docs" / "monitoring.md").read_text()

NAME = r"\b(?:novikoff|process)_\w+"


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        missing(f"the monitoring kit is tested with {name}: apt-get install prometheus")
    return found


def load(path: Path) -> Any:
    return YAML(typ="safe").load(path)


def rules() -> list[dict[str, Any]]:
    return [rule for group in load(KIT / "alerts.yml")["groups"] for rule in group["rules"]]


def dashboard_expressions() -> list[str]:
    """What the dashboard asks Prometheus, with its variables filled in."""
    targets = [target for panel in DASHBOARD["panels"] for target in panel.get("targets", [])]
    asked = [shown["expr"] for shown in (*targets, *DASHBOARD["annotations"]["list"])]
    return [
        expr.replace("$__rate_interval", "10s").replace("$instance", ".*").replace("$model", ".*")
        for expr in asked
    ]


# Without a service


def test_promtool_finds_nothing_wrong_with_the_configuration_and_the_rules() -> None:
    for command in (["check", "config", "prometheus.yml"], ["check", "rules", "alerts.yml"]):
        done = subprocess.run([program("promtool"), *command], cwd=KIT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_speaks_when_it_should_and_only_then() -> None:
    command = [program("promtool"), "test", "rules", "alerts_test.yml"]
    done = subprocess.run(command, cwd=KIT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_test_a_severity_and_something_to_say() -> None:
    alerts = {rule["alert"]: rule for rule in rules() if "alert" in rule}
    cases = [case for test in load(KIT / "alerts_test.yml")["tests"] for case in test["alert_rule_test"]]
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == alerts.keys()
    for alert in alerts.values():
        assert alert["labels"]["severity"] in ("warning", "critical")
        assert alert["annotations"].keys() == {"summary", "description"}


def test_the_panels_of_the_dashboard_have_places_of_their_own_and_known_variables() -> None:
    places = {
        (x, y)
        for panel in DASHBOARD["panels"]
        for g in [panel["gridPos"]]
        for x in range(g["x"], g["x"] + g["w"])
        for y in range(g["y"], g["y"] + g["h"])
    }
    assert len(places) == sum(p["gridPos"]["w"] * p["gridPos"]["h"] for p in DASHBOARD["panels"])
    assert max(x for x, _ in places) < 24
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD)))
    assert used - {"__rate_interval", "__all"} == variables


def test_grafana_is_given_the_prometheus_and_the_dashboard_of_the_compose_file() -> None:
    services = load(ROOT / "docker-compose.yml")["services"]
    (source,) = load(KIT / "grafana" / "provisioning" / "datasources" / "prometheus.yml")["datasources"]
    assert source["url"] == "http://prometheus:9090" and "prometheus" in services
    first = DASHBOARD["templating"]["list"][0]
    assert first["type"] == "datasource" and first["current"]["value"] == source["uid"]
    (provider,) = load(KIT / "grafana" / "provisioning" / "dashboards" / "novikoff.yml")["providers"]
    mounted = dict(volume.split(":")[:2] for volume in services["grafana"]["volumes"])
    assert mounted["./monitoring/grafana/dashboards"] == provider["options"]["path"]
    mounted = dict(volume.rsplit(":", 2)[:2] for volume in services["prometheus"]["volumes"])
    assert mounted["${TARGETS:-./monitoring/targets.yml}"] == "/etc/prometheus/targets.yml"
    assert load(KIT / "prometheus.yml")["scrape_configs"][0]["file_sd_configs"] == [
        {"files": ["targets.yml"]}
    ]
    for file in ("targets.yml", "targets-cluster.yml"):
        ((*asked,),) = [one["targets"] for one in load(KIT / file)]
        assert asked and all(address.removesuffix(":8000") in services for address in asked)


@pytest.mark.parametrize("name", ["prometheus", "grafana"])
def test_the_monitoring_services_start_only_if_asked_are_pinned_and_are_not_published(name: str) -> None:
    service = load(ROOT / "docker-compose.yml")["services"][name]
    assert service["profiles"] == ["monitoring"]
    assert re.fullmatch(r"[\w/]+:v?\d+\.\d+\.\d+", service["image"])
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    for volume in service["volumes"]:
        source = volume.split(":")[0]
        assert not source.startswith("./") or ((ROOT / source).exists() and volume.endswith(":ro"))


def test_grafana_does_not_start_without_a_password_of_your_own(tmp_path: Path) -> None:
    grafana = load(ROOT / "docker-compose.yml")["services"]["grafana"]
    assert grafana["environment"]["GF_SECURITY_ADMIN_PASSWORD"] == "${GRAFANA_PASSWORD:-}"
    shell, option, script = grafana["entrypoint"]
    command = [shell, option, script.replace("$$", "$").replace("/run.sh", "echo started")]

    def start(password: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"GF_SECURITY_ADMIN_PASSWORD": password}
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    refused = start("")
    assert refused.returncode == 1 and "GRAFANA_PASSWORD" in refused.stderr and not refused.stdout
    assert start("of my own").stdout == "started\n"


def test_the_page_lists_every_alert_with_its_severity() -> None:
    expected = [[f"`{rule['alert']}`", rule["labels"]["severity"]] for rule in rules() if "alert" in rule]
    assert [row[:2] for row in rows_of(section("Alerts", PAGE))] == expected


def test_the_page_tells_of_every_line_that_the_service_logs() -> None:
    modules = [
        path
        for path in (ROOT / "service").rglob("*.py")
        if "commands" not in path.parts or path.name == "serve.py"
    ]
    logged = re.findall(r'\blog\.(\w+)\(\s*"([^%"]+)', "".join(path.read_text() for path in modules))
    told = [(level, line[1:-1]) for line, level, *_ in rows_of(section("Logs", PAGE))]

    def same(one: tuple[str, str], other: tuple[str, str]) -> bool:
        return one[0] == other[0] and (
            one[1].startswith(other[1].strip()) or other[1].startswith(one[1].strip())
        )

    assert [line for line in logged if not any(same(line, known) for known in told)] == []
    assert [line for line in told if not any(same(line, known) for known in logged)] == []


# With a service


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service in which something has happened to a model."""
    service = Service(tmp_path_factory.mktemp("watched") / "data").start()
    service.create("m", declared_margin=0.5)
    for label in [1, -1] * 10:
        service.reveal(service.predict("m", [label])["prediction_id"], label)
    service.predict("m", [1.0])
    yield service
    service.close()


def families(service: Service) -> set[str]:
    """The names of the series that a service has."""
    text = service.client.get("/metrics").text
    return {re.split(r"[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")}


def test_every_metric_that_the_rules_and_the_dashboard_name_exists(watched: Service) -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    asked = " ".join([*(rule["expr"] for rule in rules()), *dashboard_expressions()])
    asked += json.dumps(DASHBOARD["templating"])
    for name in recorded:
        asked = asked.replace(name, "")
    named = set(re.findall(NAME, re.sub(r"novikoff-\w+", "", asked)))
    assert len(named) > 20
    assert named <= families(watched)


def test_the_page_lists_every_metric_with_its_labels(watched: Service) -> None:
    found: dict[str, set[str]] = {}
    for line in watched.client.get("/metrics").text.splitlines():
        if line.startswith("novikoff_"):
            name = re.sub(r"_seconds_(bucket|count|sum)$", "_seconds", re.split(r"[{ ]", line)[0])
            found.setdefault(name, set()).update(re.findall(r'(\w+)="', line))
    found = {name: labels for name, labels in found.items() if not name.endswith("_created")}
    listed = {row[0][1:-1]: set(re.findall(r"`(\w+)`", row[1])) for row in rows_of(section("Metrics", PAGE))}
    assert listed == found


@pytest.fixture
def prometheus(watched: Service, tmp_path: Path) -> Iterator[httpx.Client]:
    """A Prometheus with our configuration, only faster, over that service."""
    binary = program("prometheus")
    target = f"127.0.0.1:{watched.client.base_url.port}"
    (tmp_path / "prometheus.yml").write_text((KIT / "prometheus.yml").read_text().replace("15s", "1s"))
    (tmp_path / "targets.yml").write_text((KIT / "targets.yml").read_text().replace("novikoff:8000", target))
    shutil.copy(KIT / "alerts.yml", tmp_path)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    log = tmp_path / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                binary,
                f"--config.file={tmp_path / 'prometheus.yml'}",
                f"--storage.tsdb.path={tmp_path / 'tsdb'}",
                f"--web.listen-address={address}",
            ],
            stdout=output,
            stderr=output,
        )
    try:
        with httpx.Client(
            base_url=f"http://{address}/api/v1", timeout=PATIENCE_SECONDS, trust_env=False
        ) as client:
            until(lambda: client.get(f"http://{address}/-/ready").status_code == 200, log)
            yield client
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def until(condition: Callable[[], bool], log: Path) -> None:
    eventually(condition, otherwise=log, not_yet=httpx.TransportError, every=0.2)


def test_a_real_prometheus_scrapes_the_service_and_evaluates_the_rules(
    prometheus: httpx.Client, watched: Service, tmp_path: Path
) -> None:
    def ask(expression: str) -> list[Any]:
        answer = prometheus.get("/query", params={"query": expression}).json()
        assert answer["status"] == "success", f"{expression}\n{answer}"
        found: list[Any] = answer["data"]["result"]
        return found

    log = tmp_path / "log"
    until(lambda: len(ask("count_over_time(novikoff_models_loaded[30s]) >= 3")) == 1, log)

    # There is none while the newest scrape has failed, as it does if the answer takes longer than a second.
    revealed = 'novikoff_model_revealed_total{job="novikoff", model="m"}'
    until(lambda: [float(one["value"][1]) for one in ask(revealed)] == [20.0], log)
    assert watched.stats("m")["rounds"]["revealed"] == 20

    def has_all_names() -> bool:
        names = set(prometheus.get("/label/__name__/values").json()["data"])
        return {name for name in families(watched) if name.startswith("novikoff_")} <= names

    until(has_all_names, log)

    groups = prometheus.get("/rules").json()["data"]["groups"]
    loaded = {rule["name"] for group in groups for rule in group["rules"]}
    assert loaded == {rule.get("alert") or rule["record"] for rule in rules()}

    def healthy() -> bool:
        groups = prometheus.get("/rules").json()["data"]["groups"]
        states = {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}
        assert "err" not in states.values(), states
        return set(states.values()) == {"ok"}

    until(healthy, log)
    for expression in dashboard_expressions():
        ask(expression)
    rates = 'topk(10, rate(novikoff_model_revealed_total{instance=~".*", model=~".*"}[10s]))'
    until(lambda: bool(ask(rates)), log)  # two scrapes in ten seconds


def test_a_service_that_is_gone_raises_an_alert(
    prometheus: httpx.Client, watched: Service, tmp_path: Path
) -> None:
    def alert() -> list[str]:
        alerts = prometheus.get("/alerts").json()["data"]["alerts"]
        return [one["state"] for one in alerts if one["labels"]["alertname"] == "NovikoffDown"]

    def health() -> list[str]:
        return [target["health"] for target in prometheus.get("/targets").json()["data"]["activeTargets"]]

    log = tmp_path / "log"
    until(lambda: health() == ["up"], log)
    watched.stop()
    until(lambda: alert() in (["pending"], ["firing"]), log)
    watched.start()
