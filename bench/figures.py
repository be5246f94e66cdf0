"""A figure: what was measured, and whether it is what was promised."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.load import run
from bench.load.work import Work
from bench.processes import Server
from bench.samples import Samples, Thing, number
from bench.scale import Scale


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of the table of results. `reached` is None where nothing is promised, or nothing was measured."""

    name: str
    what: str
    measured: str
    ratio: Samples | None = None
    target: str = "–"
    reached: bool | None = None


@dataclass(slots=True)
class Bench:
    """One run: how much is measured, where files go, and what has come of it so far."""

    scale: Scale
    directory: Path
    wanted: frozenset[int] | None
    """The numbers of the figures to measure; None: all of them, and the peers that no figure needs."""
    absolute: dict[str, tuple[Samples, str]] = field(default_factory=dict)
    """What each thing does by itself, and its unit."""
    notes: list[str] = field(default_factory=list)

    @property
    def with_peers(self) -> bool:
        return self.wanted is None

    def wants(self, *numbers: int) -> bool:
        return self.wanted is None or not self.wanted.isdisjoint(numbers)

    @contextmanager
    def data(self, name: str) -> Iterator[Path]:
        """A directory that is there as long as it is needed."""
        path = self.directory / name
        path.mkdir()
        try:
            yield path
        finally:
            shutil.rmtree(path)

    def loading(self, name: str, server: Server, work: Work) -> Thing:
        """Requests a second with all connections busy; answers that are not 200 are noted."""

        def thing(seconds: float) -> float:
            load = run(server.port, work, seconds, self.scale.connections)
            if load.not_ok:
                self.notes.append(f"{name}: {load.not_ok:,} of {load.requests:,} answers were not 200.")
            return load.rate

        return thing


def at_least(name: str, what: str, top: Samples, bottom: Samples, target: float, unit: str) -> Figure:
    """A ratio that has to reach the target."""
    ratio = top / bottom
    return Figure(
        name, what, f"{top} ÷ {bottom} {unit}", ratio, f"at least {target:.3g}", ratio.median >= target
    )


def ratio_under(name: str, what: str, top: Samples, bottom: Samples, target: float, unit: str) -> Figure:
    """A ratio that has to stay under the target."""
    ratio = top / bottom
    return Figure(name, what, f"{top} ÷ {bottom} {unit}", ratio, f"under {target:.3g}", ratio.median < target)


def under(name: str, what: str, value: Samples, target: float, unit: str) -> Figure:
    """A value that has to stay under the target."""
    return Figure(
        name, what, f"{value} {unit}", None, f"under {number(target)} {unit}", value.median < target
    )
