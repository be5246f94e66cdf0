"""What runs the service: the compose file, the chart and the manifests for Kubernetes.

`make image-test` runs the image and every profile of the compose file. What can be told without containers is here.
"""

import os
import re
import subprocess
import sys
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from service.errors import NovikoffError
from service.settings import Settings, load_settings
from service.web.access.gate import allowed_origins, key_ring, make_gate
from tests.support.api_keys import Holder
from tests.support.nats_servers import PROGRAM, NatsServer
from tests.support.ports import free_ports
from tests.test_dockerfile import compose, last
from tests.test_tidy import PROJECT, ROOT

pytestmark = pytest.mark.thorough

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "novikoff"
KUBERNETES = DEPLOY / "kubernetes"
HELM = Path(sys.executable).parent / "helm"
VERSION = PROJECT["version"]

VALUES: dict[str, tuple[str, ...]] = {
    "default": (),
    "everything": (
        "ingress.enabled=true",
        "ingress.tlsSecret=tls",
        "ingress.annotations.example\\.org/name=value",
        "serviceMonitor.enabled=true",
        "serviceMonitor.labels.release=prometheus",
        "imagePullSecrets[0].name=registry",
        "nodeSelector.disk=ssd",
        "tolerations[0].operator=Exists",
        "settings.NOVIKOFF_MODELS_MAX=1000",
    ),
    "plain": ("autoscaling.enabled=false", "replicas=3", "networkPolicy.enabled=false", "image.tag=9.9.9"),
    "elsewhere": (
        "image.repository=registry.example.org/novikoff",
        "keysSecret=ours",
        "journal=nats://one:4222",
    ),
}
"""What the chart is rendered with."""


def render(*values: str, name: str = "novikoff") -> list[dict[str, Any]]:
    settings = [part for value in values for part in ("--set", value)]
    rendered = subprocess.run(
        [HELM, "template", name, CHART, *settings], check=True, capture_output=True, text=True
    )
    return [one for one in YAML(typ="safe").load_all(rendered.stdout) if one]


def one_of(kind: str, manifests: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = [one for one in manifests if one["kind"] == kind]
    return found


def pod_of(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    pod: dict[str, Any] = one_of("Deployment", manifests)["spec"]["template"]["spec"]
    return pod


def is_setting(variable: str) -> bool:
    return variable.removeprefix("NOVIKOFF_").lower() in Settings.model_fields


# The settings that each service starts with


def check_settings(environment: dict[str, str]) -> None:
    """Whether the service would get past its settings in the image with this environment."""
    image = dict(line.split("=", 1) for line in last("ENV").split() if line.startswith("NOVIKOFF_"))
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("NOVIKOFF_")]:
            patch.delenv(name)
        for name, value in (image | environment).items():
            patch.setenv(name, value)
        settings = load_settings()
        make_gate(settings, key_ring(settings), allowed_origins(settings))


def interpolated(text: object, variables: dict[str, str]) -> str:
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: variables.get(found[1]) or found[2], str(text))


def environment_of(service: dict[str, Any], **variables: str) -> dict[str, str]:
    """What compose gives to a service: its files of settings that are there, and then its own."""
    files = [ROOT / one for one in service.get("env_file", ()) if isinstance(one, str)]
    lines = [line for file in files for line in file.read_text().splitlines() if line and line[0] != "#"]
    own = {name: interpolated(value, variables) for name, value in service["environment"].items()}
    return dict(line.split("=", 1) for line in lines) | own


OURS = [name for name, one in compose()["services"].items() if one["image"].startswith("novikoff")]


@pytest.mark.parametrize("publish", ["", "127.0.0.1:9000"])
@pytest.mark.parametrize("name", OURS)
def test_each_of_our_services_in_compose_gets_past_its_settings(name: str, publish: str) -> None:
    service = compose()["services"][name]
    assert "command" not in service and "entrypoint" not in service, "it runs what the image runs"
    check_settings(environment_of(service, PUBLISH=publish, PUBLISH_CLUSTER=publish))


@pytest.mark.parametrize("name", OURS)
def test_published_to_others_it_needs_keys(name: str) -> None:
    published = dict.fromkeys(("PUBLISH", "PUBLISH_CLUSTER"), "0.0.0.0:8000")
    environment = environment_of(compose()["services"][name], **published)
    with pytest.raises(NovikoffError, match="reachable by others"):
        check_settings(environment)
    check_settings(environment | {"NOVIKOFF_API_KEYS": Holder("a", "read").line})


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_each_pod_gets_past_its_settings(values: tuple[str, ...], tmp_path: Path) -> None:
    pod = pod_of(render(*values))
    (container,) = pod["containers"]
    assert "command" not in container and "args" not in container, "it runs what the image runs"
    environment = {one["name"]: one["value"] for one in container["env"]}
    if pod.get("enableServiceLinks", True):  # what Kubernetes sets for the Service
        environment |= {"NOVIKOFF_PORT": "tcp://10.0.0.1:80", "NOVIKOFF_SERVICE_HOST": "10.0.0.1"}
    (keys,) = [one for one in container["volumeMounts"] if one["name"] == "keys"]
    assert "subPath" not in keys, "a change of the Secret would not be seen"
    directory, file = environment["NOVIKOFF_API_KEYS_FILE"].rsplit("/", 1)
    assert directory == keys["mountPath"]
    (tmp_path / file).write_text(Holder("a", "read").line)
    check_settings(environment | {"NOVIKOFF_API_KEYS_FILE": str(tmp_path / file)})


# Compose


def test_whatever_is_confined_says_which_user_it_is() -> None:
    """An image that starts as root to become another user later cannot, without any capability."""
    assert int(last("USER").split(":")[0]) > 0
    for name, one in compose()["services"].items():
        assert one["cap_drop"] == ["ALL"]
        assert name in OURS or re.fullmatch(r"\d+:\d+", one["user"]), name


def test_every_service_of_the_compose_file_is_confined() -> None:
    for name, service in compose()["services"].items():
        assert service["cap_drop"] == ["ALL"] and "cap_add" not in service, name
        assert service["security_opt"] == ["no-new-privileges:true"] and "privileged" not in service, name
        assert all(
            port.startswith(("127.0.0.1:", "${PUBLISH:-127.0.0.1:", "${PUBLISH_CLUSTER:-127.0.0.1:"))
            for port in service.get("ports", ())
        ), name


def test_images_have_a_version_and_ours_is_this_one() -> None:
    for name, one in compose()["services"].items():
        assert re.search(r":v?\d+\.\d+", one["image"]), name
        assert name not in OURS or one["image"] == f"novikoff:{VERSION}"
    chart = YAML(typ="safe").load(CHART / "Chart.yaml")
    assert chart["version"] == chart["appVersion"] == VERSION


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
        assert one["environment"]["NOVIKOFF_NATS_PASSWORD"] == "${NATS_PASSWORD:-}"
        assert one["deploy"]["resources"]["limits"]["memory"]
        assert one["environment"]["NOVIKOFF_JOURNAL"].count("nats://") == 3
    balanced = (DEPLOY / "cluster" / "haproxy.cfg").read_text()
    assert re.findall(r"server (replica-\d) \1:8000", balanced) == ["replica-1", "replica-2"]


def test_the_servers_configuration_is_one_that_a_server_takes_and_that_syncs(tmp_path: Path) -> None:
    text = (DEPLOY / "cluster" / "nats.conf").read_text()
    environment = os.environ | {"NATS_PASSWORD": '"1e6"'}
    config = DEPLOY / "cluster" / "nats.conf"
    subprocess.run([PROGRAM, "-t", "-c", config], check=True, capture_output=True, env=environment)
    assert subprocess.run([PROGRAM, "-t", "-c", config], capture_output=True).returncode != 0, "no password"
    client, monitor, routes = free_ports(3)
    for old, new in (
        ("4222", client),
        ("8222", monitor),
        ("port: 6222", f"port: {routes}"),
        ("/data", tmp_path),
    ):
        assert old in text
        text = text.replace(old, str(new))
    text = re.sub(r"cluster \{.*\n\}", "", text, flags=re.DOTALL)  # a server by itself
    (tmp_path / "nats.conf").write_text(text)
    server = NatsServer(tmp_path / "unused")
    server.monitor_port = monitor
    server.directory.mkdir()
    command = [PROGRAM, "-c", tmp_path / "nats.conf"]
    server.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment)
    try:
        (server.directory / "log").touch()
        server.wait_until_healthy()
        told = server.ask("varz")
        assert told["auth_required"] is True
        store = told["jetstream"]["config"]
        assert store["sync_always"] is True and 0 < store["max_storage"] <= 4_294_967_296
        assert 0 < store["max_memory"] <= 67_108_864
    finally:
        server.kill()


@pytest.mark.parametrize(("password", "is_fit"), [("", False), ('a"b', False), ("1e6", True), ("a b", False)])
def test_the_servers_of_the_profile_start_only_with_a_password_of_your_own(
    password: str, is_fit: bool
) -> None:
    for name in ("nats-1", "nats-2", "nats-3"):
        server = compose()["services"][name]
        assert server["environment"]["NATS_PASSWORD"] == "${NATS_PASSWORD:-}"
        shell, option, script = server["entrypoint"]
        echo = script.replace("$$", "$").replace("exec nats-server", "echo $NATS_PASSWORD")
        command = [shell, option, echo, *server["command"]]
        done = subprocess.run(
            command, env=os.environ | {"NATS_PASSWORD": password}, capture_output=True, text=True
        )
        assert (done.returncode == 0) is is_fit and ("set NATS_PASSWORD" in done.stderr) is not is_fit
        if is_fit:
            others = ",".join(f"nats-route://novikoff:{password}@nats-{n}:6222" for n in (1, 2, 3))
            told = f'"{password}" --config /etc/nats/nats.conf --routes {others} --name {name}\n'
            assert done.stdout == told


def test_the_replicas_believe_the_balancer_alone_and_nobody_else_reaches_the_servers() -> None:
    services, networks = compose()["services"], compose()["networks"]
    address = services["balancer"]["networks"]["balanced"]["ipv4_address"]
    assert networks["journal"] == {"internal": True}
    for name, one in services.items():
        if name.startswith("replica-"):
            assert one["environment"]["NOVIKOFF_TRUSTED_PROXIES"] == f"127.0.0.0/8, ::1, {address}"
        reaches = one.get("networks", ["default"])
        assert ("journal" in reaches) == name.startswith(("nats-", "replica-")), name
        assert ("balanced" in reaches) == name.startswith(("balancer", "replica-")), name
    (subnet,) = networks["balanced"]["ipam"]["config"]
    network = ip_network(interpolated(subnet["subnet"], {}))
    balancer = ip_address(interpolated(address, {}))
    assert balancer in network and balancer != next(network.hosts()), "that is the gateway's"
    assert re.search(r"^  option forwardfor$", (DEPLOY / "cluster" / "haproxy.cfg").read_text(), re.MULTILINE)


# Kubernetes


@pytest.mark.parametrize("name", ["novikoff", "ours"])
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_the_chart_renders_what_kubernetes_takes(values: tuple[str, ...], name: str) -> None:
    manifests = render(*values, name=name)
    for one in manifests:
        if one["kind"] != "ServiceMonitor":  # the Prometheus operator's own
            kubernetes_validate.validate(one, "1.33", strict=True)
    assert len({(one["kind"], one["metadata"]["name"]) for one in manifests}) == len(manifests)


def test_the_chart_is_one_that_helm_takes() -> None:
    subprocess.run([HELM, "lint", "--strict", CHART], check=True, capture_output=True)


def test_the_plain_manifests_are_the_chart_rendered(tmp_path: Path) -> None:
    for source in (KUBERNETES, DEPLOY / "helm"):
        subprocess.run(["cp", "-r", source, tmp_path], check=True)
    subprocess.run([tmp_path / "kubernetes" / "manifests.sh", HELM], check=True)
    for name in ("novikoff.yaml", "ingress.yaml", "servicemonitor.yaml"):
        assert (KUBERNETES / name).read_text() == (tmp_path / "kubernetes" / name).read_text(), (
            "make manifests"
        )


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_the_manifests_agree_with_each_other_and_with_the_service(values: tuple[str, ...]) -> None:
    manifests = render(*values)
    deployment = one_of("Deployment", manifests)["spec"]
    labels = deployment["selector"]["matchLabels"]
    assert labels.items() <= deployment["template"]["metadata"]["labels"].items()
    service = one_of("Service", manifests)
    assert service["spec"]["selector"] == labels
    budget = one_of("PodDisruptionBudget", manifests)["spec"]
    assert budget == {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    kinds = {one["kind"] for one in manifests}
    assert ("replicas" in deployment) != ("HorizontalPodAutoscaler" in kinds), "the autoscaler decides it"
    for kind in kinds & {"NetworkPolicy"}:
        assert one_of(kind, manifests)["spec"]["podSelector"]["matchLabels"] == labels
    for kind in kinds & {"ServiceMonitor"}:
        monitor = one_of(kind, manifests)["spec"]
        assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert [end["port"] for end in monitor["endpoints"]] == [
            one["name"] for one in service["spec"]["ports"]
        ]
    pod = deployment["template"]["spec"]
    spread = {one["topologyKey"] for one in pod["topologySpreadConstraints"]}
    assert spread == {"topology.kubernetes.io/zone", "kubernetes.io/hostname"}
    (container,) = pod["containers"]
    assert re.search(r":\d+\.\d+\.\d+$", container["image"])
    probes = {name: container[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe")}
    assert probes == {"livenessProbe": "/livez", "readinessProbe": "/readyz"}
    start = container["startupProbe"]
    assert start["periodSeconds"] * start["failureThreshold"] >= 300
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert all(is_setting(one["name"]) for one in container["env"])
    assert pod["terminationGracePeriodSeconds"] >= Settings.model_fields["shutdown_seconds"].default + 10
    assert not kinds & {"StatefulSet", "PersistentVolumeClaim"}, "replicas keep nothing"


def test_the_chart_is_told_to_sync_every_write() -> None:
    values = YAML(typ="safe").load(KUBERNETES / "nats-values.yaml")
    assert values["config"]["jetstream"]["merge"] == {"sync_interval": "always"}
    assert values["config"]["cluster"]["replicas"] == 3 and values["config"]["monitor"]["enabled"]
    store = values["config"]["jetstream"]["fileStore"]
    assert int(store["maxSize"][:-2]) < int(store["pvc"]["size"][:-2]), "a full disk would stop the servers"
    limit = values["container"]["merge"]["resources"]["limits"]["memory"]
    assert int(limit[:-2]) >= int(store["maxSize"][:-2]) / 2, "docs/scaling.md"
    assert values["config"]["merge"]["authorization"]["user"] == "novikoff"
