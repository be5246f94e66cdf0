"""Makes what `make image-test` needs: the programs, the base image, Novikoff's image, and those of the compose file.

As root on a Debian machine. What a registry has is pulled; where none can be reached, the base is made from Debian's
packages (base.sh) and other projects' images from the same programs (Containerfile). All of it is kept in SCRATCH, so
that the next run builds what has changed and no more. `--possible` stops once it is clear that containers can be run.
"""

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.image.engine import (
    COMPOSE,
    CONFIGURATION,
    ENVIRONMENT,
    HERE,
    IMAGE,
    SCRATCH,
    compose_images,
    podman,
)
from tests.support.markdown import ROOT

PACKAGES = ["buildah", "podman", "runc", "debootstrap", "netavark", "aardvark-dns", "iptables"]
LOCAL = "localhost/"
"""What the names of all images here begin with, wherever they come from."""

PULL_SECONDS = 120


def main() -> None:
    began = time.monotonic()
    base = base_of_the_dockerfile()
    make_possible(base)
    if "--possible" in sys.argv:
        return
    say(f"building {IMAGE} ...")
    build(ROOT, "--build-arg", f"BASE={LOCAL}{base}", "--tag", IMAGE)
    make_stand_ins(base)
    say(f"everything is there after {time.monotonic() - began:.0f} s")


def make_possible(base: str) -> None:
    """The programs and the base, and a container of it that runs; exits with the reason if that cannot be had."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        sys.exit(
            "make image-test needs root and apt-get, to install podman and to make images: not possible here"
        )
    SCRATCH.mkdir(parents=True, exist_ok=True)
    install_programs()
    write_configuration()
    if not exists(base) and not pulled(base):
        make_base(base)
    tried = podman("run", "--rm", f"{LOCAL}{base}", "true", check=False)
    if tried.returncode != 0:
        sys.exit(f"no container can be run here: {tried.stderr}")


def say(what: str) -> None:
    print(what, flush=True)


def install_programs() -> None:
    if all(map(shutil.which, ("buildah", "podman", "runc", "debootstrap", "iptables"))):
        return
    say(f"installing {' '.join(PACKAGES)} ...")
    with (SCRATCH / "apt.log").open("w") as log:
        for command in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *PACKAGES]):
            if subprocess.run(["apt-get", *command], stdout=log, stderr=log).returncode != 0:
                sys.exit(f"the programs cannot be installed: {(SCRATCH / 'apt.log').read_text()[-2000:]}")


def write_configuration() -> None:
    """One of our own, so that nothing of the machine's is touched: for a machine without systemd, and runc's limits."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    graph = f'[storage]\ndriver = "overlay"\ngraphroot = "{SCRATCH}/graph"\nrunroot = "{SCRATCH}/run"\n'
    CONFIGURATION["CONTAINERS_STORAGE_CONF"].write_text(graph)
    CONFIGURATION["CONTAINERS_CONF"].write_text(
        f'[containers]\nlog_driver = "k8s-file"\ndefault_ulimits = ["nofile={files}:{files}", "nproc=4096:4096"]\n'
        '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        "compat_api_enforce_docker_hub = false\n"
        '[network]\nnetwork_backend = "netavark"\n'
    )


def base_of_the_dockerfile() -> str:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    return next(line for line in lines if line.startswith("ARG BASE=")).removeprefix("ARG BASE=")


def exists(image: str) -> bool:
    return podman("image", "exists", f"{LOCAL}{image}", check=False).returncode == 0


def pulled(image: str) -> bool:
    say(f"pulling {image} ...")
    try:
        if podman("pull", "--quiet", image, check=False, seconds=PULL_SECONDS).returncode != 0:
            return False
    except subprocess.TimeoutExpired:
        return False
    podman("tag", image, f"{LOCAL}{image}")
    return True


def make_base(base: str) -> None:
    say(f"no registry can be reached: making {base} from Debian's packages and a Python of this machine ...")
    version, _, release = base.rpartition(":")[2].split("-")
    arguments = [str(SCRATCH), f"{LOCAL}{base}", release, version]
    if subprocess.run([HERE / "base.sh", *arguments], env=os.environ | ENVIRONMENT).returncode != 0:
        sys.exit(f"{base} can be neither pulled nor made here")


def make_stand_ins(base: str) -> None:
    """The images of other projects that the compose file names, and Docker Compose itself."""
    nats = (
        next(image for image in compose_images() if image.startswith("nats:"))
        .rpartition(":")[2]
        .removesuffix("-alpine")
    )
    values = {"BASE": f"{LOCAL}{base}", "NATS_VERSION": nats}
    arguments = [part for name, value in values.items() for part in ("--build-arg", f"{name}={value}")]
    arguments += ["--file", str(HERE / "Containerfile")]
    for image in compose_images():
        name = image.rpartition(":")[0].rpartition("/")[2]
        if exists(image) or name in ("novikoff", "grafana"):
            continue
        if not pulled(image):
            say(f"making a stand-in for {image} ...")
            build(HERE, *arguments, "--target", name, "--tag", f"{LOCAL}{image}")
    if not COMPOSE.exists():
        build(HERE, *arguments, "--target", "compose", "--tag", "localhost/compose")
        container = podman("create", "localhost/compose").stdout.strip()
        podman("cp", f"{container}:/compose/usr/libexec/docker/cli-plugins/docker-compose", COMPOSE)
        podman("rm", container)


def build(context: Path, *arguments: object) -> None:
    command = [
        "buildah",
        "bud",
        "--quiet",
        "--layers",
        "--isolation",
        "chroot",
        "--network",
        "host",
        "--pull=never",
    ]
    mounts = [part for mount in pip_mounts() for part in ("--volume", mount)]
    whole = [*command, "--format", "docker", *mounts, *map(str, arguments), str(context)]
    with (SCRATCH / "build.log").open("w") as log:
        ended = subprocess.run(whole, stdout=log, stderr=log, env=os.environ | ENVIRONMENT)
    if ended.returncode != 0:
        sys.exit(f"building failed: {(SCRATCH / 'build.log').read_text()[-4000:]}")


def pip_mounts() -> Iterator[str]:
    """What pip needs on this machine, for the builds: its configuration, and files and directories that it names."""
    told = subprocess.run(
        ["python3", "-m", "pip", "config", "list"], check=True, capture_output=True, text=True
    )
    settings = {}
    for line in told.stdout.splitlines():
        name, _, value = line.partition("=")
        settings[name.rpartition(".")[2]] = value.strip("'\"")
    file = SCRATCH / "pip.conf"
    values = [value.replace("\\n", " ") for value in settings.values()]
    lines = [f"{name} = {value}" for name, value in zip(settings, values, strict=True)]
    file.write_text("\n".join(["[global]", *lines, ""]))
    yield f"{file}:/etc/pip.conf:ro"
    words = [word for value in values for word in value.split()]
    indexes = {str(Path(word.removeprefix("file://")).parent) for word in words if word.startswith("file://")}
    paths = {word for word in words if word.startswith("/")} | indexes  # an index has its files beside it
    yield from (f"{path}:{path}:ro" for path in sorted(paths) if path.startswith("/") and Path(path).exists())


if __name__ == "__main__":
    main()
