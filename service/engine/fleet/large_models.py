"""What takes long with large models is done in threads: their arithmetic leaves the interpreter to the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, TypeVarTuple

from service.engine.models.model import Model
from service.engine.models.sizes import numbers_kept
from service.events import AnyEvent, ModelImported

LARGE_NUMBERS = 131_072
"""A model with so many weights and variances is large. numpy works on arrays of that size without the interpreter's
lock. The steps of smaller models are short and need the lock all the time: in a thread they would keep it from the
loop for 5 ms whenever that has let go of it, so they are done on the loop, in slices."""

LARGE_BYTES = 8 * LARGE_NUMBERS
"""The same as a saved state."""

NAMES_MANY = 10_000

THREADS = 2

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="large-models")


def is_large(model: Model) -> bool:
    classes = len(model.labels.values)
    if model.contest is None:
        return numbers_kept(model.settings, model.features.size(), classes) >= LARGE_NUMBERS
    return sum(numbers_kept(one, of.size(), classes) for one, of in model.learners()) >= LARGE_NUMBERS


def takes_long_to_read(model: Model) -> bool:
    """Whether it is large, or has more names than are told in a millisecond."""
    return is_large(model) or (
        model.settings["features"]["kind"] == "named" and model.features.size() > NAMES_MANY
    )


def is_large_import(event: AnyEvent) -> bool:
    return isinstance(event, ModelImported) and len(event.state) >= LARGE_BYTES


async def beside_the_loop(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call a function in a thread. Nobody else may change what it works on meanwhile."""
    return await asyncio.get_running_loop().run_in_executor(_threads, function, *args)
