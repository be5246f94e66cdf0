"""The error over the rounds as an SVG picture, made by hand."""

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from math import floor, log10

WIDTH, HEIGHT = 800, 420
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 50, 50

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #444 }
  .title { font-size: 17px; font-weight: 600; fill: #111 }
  .grid { stroke: #ddd } .recent { stroke: #9cc3e6; fill: none; stroke-width: 1.5 }
  .overall { stroke: #0b5cad; fill: none; stroke-width: 2.5 } .background { fill: #fff }
  @media (prefers-color-scheme: dark) {
    text { fill: #bbb } .title { fill: #eee } .grid { stroke: #333 } .background { fill: #111 }
    .recent { stroke: #3c648c } .overall { stroke: #6db3f2 }
  }"""


def error_plot(title: str, rounds: Sequence[int], mistakes: Sequence[int]) -> str:
    """A picture of a curve of mistakes: the error of all rounds so far, and that between two points."""
    last = max(rounds[-1], 1) if rounds else 1
    overall = [(n, m / n) for n, m in zip(rounds, mistakes, strict=True) if n]
    recent = recent_errors(rounds, mistakes)
    highest = tick_step(max([error for _, error in (*overall, *recent)], default=1.0) or 1.0, 1)

    def place(n: float, error: float) -> tuple[float, float]:
        return (
            LEFT + (WIDTH - LEFT - RIGHT) * n / last,
            HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * error / highest,
        )

    parts = [f'<rect class="background" width="{WIDTH}" height="{HEIGHT}"/>']
    parts.append(f'<text class="title" x="{LEFT}" y="28">{escape(title)}</text>')
    for error in ticks(highest):
        x, y = place(0, error)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{x - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{error:.3g}</text>')
    for n in ticks(last):
        x, y = place(n, 0)
        parts.append(f'<text x="{x:.1f}" y="{y + 20:.1f}" text-anchor="middle">{n:,.0f}</text>')
    for name, curve in (("recent", recent), ("overall", overall)):
        points = " ".join("{:.1f},{:.1f}".format(*place(n, error)) for n, error in curve)
        parts.append(f'<polyline class="{name}" points="{points}"/>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">rounds</text>')
    parts.append(
        f'<text x="{WIDTH - RIGHT}" y="28" text-anchor="end">error rate so far (dark) and lately (light)</text>'
    )
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}\n</style>\n{body}\n</svg>\n"
    )


def recent_errors(
    rounds: Sequence[int], mistakes: Sequence[int], pieces: int = 32
) -> list[tuple[float, float]]:
    """The error within each of at most so many pieces of a curve, at its end.

    >>> recent_errors([0, 10, 20], [0, 5, 6], pieces=2)
    [(10, 0.5), (20, 0.1)]
    """
    last = len(rounds) - 1
    pieces = min(pieces, last)
    at = [last * i // pieces for i in range(pieces + 1)] if pieces > 0 else []
    return [
        (rounds[j], (mistakes[j] - mistakes[i]) / (rounds[j] - rounds[i]))
        for i, j in pairwise(at)
        if rounds[j] > rounds[i]
    ]


def ticks(highest: float) -> list[float]:
    """Round numbers from 0 to `highest`, about five of them.

    >>> ticks(1250), ticks(0.5)
    ([0.0, 250.0, 500.0, 750.0, 1000.0, 1250.0], [0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    """
    step = tick_step(highest, 5)
    return [round(i * step, 10) for i in range(int(highest / step * 1.000001) + 1)]


def tick_step(highest: float, count: int) -> float:
    """The smallest round number of which `count` reach `highest`.

    >>> tick_step(1250, 5), tick_step(0.31, 1), tick_step(1.0, 5)
    (250.0, 0.5, 0.2)
    """
    least = highest / count * 0.999999
    exponent = floor(log10(least))
    steps = (float(f"{factor}e{exponent}") for factor in (1, 2, 2.5, 5))
    return next((step for step in steps if step >= least), float(f"1e{exponent + 1}"))
