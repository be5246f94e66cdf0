"""What runs several replicas: the compose profile `cluster` and the manifests for Kubernetes."""

import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from service.settings import Settings
from tests.nats_servers import PROGRAM, NatsServer, free_ports
from tests.test_tidy import ROOT, compose

DEPLOY = ROOT / "deploy"
MANIFESTS: list[dict[str, Any]] = list(YAML(typ="safe").load_all(DEPLOY / "kubernetes" / "novikoff.yaml"))


def manifest(kind: str) -> dict[str, Any]:
    (found,) = [one for one in MANIFESTS if one["kind"] == kind]
    return found


@pytest.mark.parametrize("one", MANIFESTS, ids=lambda one: one["kind"])
def test_a_manifest_is_one_that_kubernetes_takes(one: dict[str, Any]) -> None:
    kubernetes_validate.validate(one, "1.33", strict=True)


def is_setting(variable: str) -> bool:
    return variable.removeprefix("NOVIKOFF_").lower() in Settings.model_fields


def test_the_profile_has_three_servers_with_volumes_two_replicas_and_a_balancer() -> None:
    services = {
        name: one for name, one in compose()["services"].items() if one.get("profiles") == ["cluster"]
    }
    servers = [one for name, one in services.items() if name.startswith("nats-")]
    replicas = [one for name, one in services.items() if name.startswith("replica-")]
    assert (len(servers), len(replicas), len(services)) == (3, 2, 6)
    kept = {volume.split(":")[0] for one in servers for volume in one["volumes"] if volume.endswith(":/data")}
    assert len(kept) == 3 and kept <= compose()["volumes"].keys()
    for one in services.values():
        assert one["healthcheck"]["test"] and one["read_only"] and one["cap_drop"] == ["ALL"]
    for one in replicas:
        assert all(map(is_setting, one["environment"]))
        assert one["environment"]["NOVIKOFF_JOURNAL"].count("nats://") == 3
    balanced = (DEPLOY / "cluster" / "nginx.conf").read_text()
    assert set(re.findall(r"server (replica-\d):8000", balanced)) == {"replica-1", "replica-2"}
    assert "proxy_buffering off;" in balanced and "proxy_request_buffering off;" in balanced


def test_the_servers_configuration_is_one_that_a_server_takes_and_that_syncs(tmp_path: Path) -> None:
    text = (DEPLOY / "cluster" / "nats.conf").read_text()
    subprocess.run([PROGRAM, "-t", "-c", DEPLOY / "cluster" / "nats.conf"], check=True, capture_output=True)
    client, monitor, routes = free_ports(3)
    for old, new in (
        ("4222", client),
        ("8222", monitor),
        ("port: 6222", f"port: {routes}"),
        ("/data", tmp_path),
    ):
        assert old in text
        text = text.replace(old, str(new))
    text = re.sub(r"cluster \{.*\n\}", "", text, flags=re.DOTALL)  # no names to resolve here
    (tmp_path / "nats.conf").write_text(text)
    server = NatsServer(tmp_path / "unused")
    server.monitor_port = monitor
    server.directory.mkdir()
    server.process = subprocess.Popen([PROGRAM, "-c", tmp_path / "nats.conf"], stderr=subprocess.DEVNULL)
    try:
        (server.directory / "log").touch()
        server.wait_until_healthy()
        assert server.ask("varz")["jetstream"]["config"]["sync_always"] is True
    finally:
        server.kill()


def test_the_manifests_agree_with_each_other_and_with_the_service() -> None:
    labels = manifest("Deployment")["spec"]["selector"]["matchLabels"]
    template = manifest("Deployment")["spec"]["template"]
    assert template["metadata"]["labels"] == labels == manifest("Service")["spec"]["selector"]
    assert manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    assert manifest("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"] == "novikoff"
    (container,) = template["spec"]["containers"]
    probes = {name: container[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe")}
    assert probes == {"livenessProbe": "/livez", "readinessProbe": "/readyz"}
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert all(map(is_setting, manifest("ConfigMap")["data"]))
    grace = template["spec"]["terminationGracePeriodSeconds"]
    assert grace >= Settings.model_fields["shutdown_seconds"].default + 10


@pytest.mark.parametrize("kind", ["StatefulSet", "PersistentVolumeClaim"])
def test_replicas_keep_nothing(kind: str) -> None:
    assert not [one for one in MANIFESTS if one["kind"] == kind]


def test_the_chart_is_told_to_sync_every_write() -> None:
    values = YAML(typ="safe").load(DEPLOY / "kubernetes" / "nats-values.yaml")
    assert values["config"]["jetstream"]["merge"] == {"sync_interval": "always"}
    assert values["config"]["cluster"]["replicas"] == 3 and values["config"]["monitor"]["enabled"]
