"""How hard to try: `make test` once, `make fuzz TIMES=100` a hundred times as hard."""

import os

from hypothesis import HealthCheck, settings

TIMES = int(os.environ.get("FUZZ_TIMES", "1"))


def effort(examples: int, **options: object) -> settings:
    """Settings for about so many examples in `make test`; other ones at each run when more is asked for."""
    return settings(
        max_examples=examples * TIMES,
        deadline=None,
        derandomize=TIMES == 1,
        database=None,
        suppress_health_check=list(HealthCheck),
        **options,  # type: ignore[arg-type]
    )
