"""The options of the command, each with what its help says."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from service.runtime import environment


class Format(StrEnum):
    csv = "csv"
    jsonl = "jsonl"
    svmlight = "svmlight"
    parquet = "parquet"


File = Annotated[str, Argument(metavar="FILE", help="The examples; - is standard input. May be gzipped.")]
Model = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="The model that learns; made if there is none. With --compare, what the models' names begin with.",
    ),
]
Service = Annotated[
    str | None,
    Option(
        metavar="URL",
        help=f"A running service; also {environment.URL}, unless --data is given. Without it, one runs here.",
    ),
]
Data = Annotated[
    Path | None, Option(metavar="DIR", help="Without --url: where it is kept. Without it, nothing is.")
]
FormatChoice = Annotated[Format | None, Option(help="By default told by the file's name.")]
LabelColumn = Annotated[
    str | None, Option(metavar="NAME", help="By default label, y, target, class, outcome, or the last one.")
]
FeatureColumns = Annotated[
    str | None, Option(metavar="NAMES", help="With commas between. By default all but the label.")
]
ModelSettings = Annotated[
    str | None, Option(metavar="JSON", help="""Of a model that is made: '{"features": "named"}'.""")
]
Delay = Annotated[int, Option(min=0, metavar="N", help="Reveal each label only N predictions later.")]
Fast = Annotated[bool, Option("--fast", help="Faster still, without ids: run twice, rows are learned twice.")]
OneByOne = Annotated[
    bool, Option("--one-by-one", help="A request for each row, as a program sends them that acts on each.")
]
Resume = Annotated[bool, Option("--resume", help="Go on after the model's last round.")]
Run = Annotated[str, Option(metavar="NAME", help="Under another name, all rounds are new ones.")]
Compare = Annotated[
    list[str] | None,
    Option(
        metavar="SETTINGS",
        help="Play the file to several new models and compare their errors with the first one's. `usual`,"
        " or algorithms with commas between, each with what its features get: auto,pa1,arow+standardize+fourier"
        " (or +crosses), or a model's settings as JSON. May be given again.",
    ),
]
