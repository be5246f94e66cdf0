"""chantilly 0.3.0, river's own service, in an environment of its own."""

import subprocess
import sys
from pathlib import Path

from bench.examples import Example, encode, examples
from bench.load.work import Work
from bench.processes import NotMeasured, Server

PACKAGES = ("chantilly==0.3.0", "waitress")
INSTALL_SECONDS = 300
APP = Path(__file__).with_name("chantilly_app.py")

WORK_PATH = "/api/learn"


def install(directory: Path) -> Path:
    """Its Python, with chantilly installed."""
    python = directory / "venv" / "bin" / "python"
    pip = ["-m", "pip", "--disable-pip-version-check", "--quiet", "install", *PACKAGES]
    for command in ([sys.executable, "-m", "venv", str(directory / "venv")], [str(python), *pip]):
        try:
            subprocess.run(command, capture_output=True, text=True, check=True, timeout=INSTALL_SECONDS)
        except subprocess.CalledProcessError as error:
            raise NotMeasured(f"chantilly cannot be installed: {_last_line(error.stderr)}") from None
        except subprocess.TimeoutExpired:
            raise NotMeasured(f"chantilly is not installed after {INSTALL_SECONDS} s") from None
    return python


def server(directory: Path) -> Server:
    # -P: without this module, which has the same name, in the way.
    return Server([str(install(directory)), "-P", str(APP), str(directory / "chantilly")])


def work() -> Work:
    """A whole round in one call: it predicts, learns, and keeps the model in a file (without an fsync)."""
    return Work(WORK_PATH, [encode(_body(example)) for example in examples()])


def _body(example: Example) -> dict[str, object]:
    return {"model": "bench", "features": example.named, "ground_truth": example.label > 0}


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["?"])[-1]
