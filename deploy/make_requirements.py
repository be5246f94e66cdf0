"""Writes deploy/requirements*.txt and deploy/build-requirements.txt, after `make constraints`: `make requirements`.

pip is asked, without installing anything, which archives it would take for the image's Python on each machine; their
SHA-256 sums are written, and no address: any index that has the same archives will do.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PYTHON = "3.13"
"""The image's."""
EXTRAS = "nats,simd"
"""What every image has beside the service itself."""
MORE = ("arrow", "onnx", "otel")
"""What an image can have, in files of their own: the Dockerfile's argument EXTRAS."""
MACHINES = ("x86_64", "aarch64")
SYSTEMS = ("manylinux_2_36", "manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")

HEADER = """\
# {what}.
# For Python {python} on Linux ({machines}), with the sums of their archives.
# Made by `make requirements` from constraints.txt. Used as
#     pip install --require-hashes {options}--requirement deploy/{file}
"""


def main() -> None:
    needed = _resolved(f".[{EXTRAS}]")
    write("requirements.txt", "What the image has beside the service", needed, "--no-deps ")
    for extra in MORE:
        added = [pin for pin in _resolved(f".[{EXTRAS},{extra}]") if pin not in needed]
        file = f"requirements-{extra}.txt"
        write(file, f"What the image has for the extra `{extra}`", added, "--no-deps ")
    # With these, packages that come as source are built without asking the index for whatever is newest.
    building = _resolved("hatchling", "setuptools", "wheel")
    write(
        "build-requirements.txt",
        "What building the service's wheel needs, and packages without one",
        building,
    )


def write(file: str, what: str, pins: list[str], options: str = "") -> None:
    sums: dict[str, set[str]] = {pin: set() for pin in pins}
    for machine in MACHINES:
        platforms = [f"--platform={system}_{machine}" for system in SYSTEMS]
        for pin, digest in _asked("--no-deps", "--target=.", f"--python-version={PYTHON}", *platforms, *pins):
            sums[pin].add(digest)
    text = HEADER.format(
        what=what, python=PYTHON, machines=" and ".join(MACHINES), file=file, options=options
    )
    for pin in sorted(pins):
        text += " \\\n".join([pin, *(f"    --hash=sha256:{digest}" for digest in sorted(sums[pin]))]) + "\n"
    (HERE / file).write_text(text)


def _resolved(*wanted: str) -> list[str]:
    """The versions of all that is needed, as constraints.txt has them."""
    found = [pin for pin, _ in _asked("--constraint=constraints.txt", *wanted)]
    return [pin for pin in found if not pin.startswith("novikoff==")]


def _asked(*arguments: str) -> list[tuple[str, str]]:
    """What pip would install: names with versions, and sums; a directory has none."""
    with tempfile.NamedTemporaryFile() as report:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        options = ["--dry-run", "--ignore-installed", f"--report={report.name}"]
        subprocess.run([*command, *options, *arguments], check=True, cwd=HERE.parent)
        found = json.load(report)["install"]
    return [
        (
            f"{one['metadata']['name'].lower().replace('_', '-')}=={one['metadata']['version']}",
            one["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256", ""),
        )
        for one in found
    ]


if __name__ == "__main__":
    main()
