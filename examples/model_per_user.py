"""A model for each user: small ones, made on first sight, learning all at once.

Users are shown pictures (of grass, sky, brick …) and like some kinds, each user others. One model for all has to
disappoint most of them; a model each learns a taste from a few dozen clicks.

    pip install river
    novikoff serve &
    python examples/model_per_user.py
"""

import argparse
import asyncio
import random

from river import datasets

from novikoff import DEFAULT_URL, AsyncClient

USERS = 10
PICTURES = 80
LIKED = 3
PREFIX = "example-user"


class User:
    """Likes some kinds of pictures. What is shown and liked is random, and the same each time."""

    def __init__(self, number: int, pictures: list[tuple[dict[str, float], str]]) -> None:
        chance = random.Random(number)
        liked = chance.sample(sorted({kind for _, kind in pictures}), LIKED)
        shown = chance.sample(pictures, PICTURES)
        self.model = f"{PREFIX}-{number}"
        self.clicks = [(list(figures.values()), kind in liked) for figures, kind in shown]


async def begin(client: AsyncClient, model: str) -> None:
    await client.create_model(
        model,
        labels=[False, True],
        learner={"algorithm": "arow"},
        features={"kind": "dense", "standardize": True},
    )


async def browse(client: AsyncClient, user: User) -> None:
    """Show a picture as the model thinks, see whether it is clicked, go on."""
    await begin(client, user.model)
    for figures, liked in user.clicks:
        prediction = await client.predict(user.model, figures)
        await client.feedback(prediction.prediction_id, liked)


async def play(url: str) -> None:
    pictures = list(datasets.ImageSegments())
    users = [User(number, pictures) for number in range(USERS)]
    async with AsyncClient(url) as client:
        async for line in client.list_models(PREFIX):  # of an earlier run
            await client.delete_model(line.model)

        await asyncio.gather(*(browse(client, user) for user in users))

        for_all = f"{PREFIX}s-all"
        await begin(client, for_all)
        mixed = [click for clicks in zip(*(user.clicks for user in users), strict=True) for click in clicks]
        await client.learn_many(for_all, mixed, safe=False)

        fleet = await client.fleet(f"{PREFIX}-", sort="error_rate", limit=USERS)
        together = await client.stats(for_all)
    assert fleet.totals.error_rate is not None and together.error_rate is not None
    print(f"{fleet.totals.models} users, {fleet.totals.rounds.revealed} clicks")
    print(f"one model for all:   error {together.error_rate:.3f}")
    print(f"a model each:        error {fleet.totals.error_rate:.3f}")
    hardest, easiest = fleet.models[0], fleet.models[-1]
    print(f"the hardest to please: {hardest.model}, error {hardest.error_rate:.3f}")
    print(f"the easiest to please: {easiest.model}, error {easiest.error_rate:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="A model for each user.")
    parser.add_argument("--url", default=DEFAULT_URL)
    asyncio.run(play(parser.parse_args().url))


if __name__ == "__main__":
    main()
