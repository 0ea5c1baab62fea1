"""What a user says behind the name of a data set whose format says what its columns have.

`#label=character,client=writer_id,64`: roles and splits, the column to learn from, and how it is read.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedgrid.engine.federation.data.names import CONFIG, TEST_SHARE, Size, composed, size_and_options
from fedgrid.engine.federation.data.tables.columns import (
    INPUT,
    LENGTH,
    PAD,
    TOKENISERS,
    TOKENS,
    Options,
)
from fedgrid.engine.federation.errors import ConfigError

TRAIN, TEST = "train", TEST_SHARE
FURTHER = (
    *(f"{TRAIN}=SPLIT", f"{TEST}=SPLIT", f"{INPUT}=COLUMN", f"{TOKENS}={'|'.join(TOKENISERS)}"),
    *(f"{LENGTH}=TOKENS", f"{PAD}=TOKEN"),
)
"""Options that csv and Parquet have not."""
SHARE = re.compile(r"[\d.]+")


@dataclass(frozen=True)
class Asked:
    """What a user asks for."""

    table: Options
    size: Size | None = None
    """To which images are scaled."""
    tokens: str = ""
    """How texts become tokens, one of `TOKENISERS`; empty: it is not said."""
    length: int | None = None
    """Tokens of a text; None: as the longest one."""
    pad: int | None = None
    """The token that fills lists of tokens."""
    train: str = ""
    """Splits of the pool, with + between them; empty: `train`, or the only one."""
    test: str = ""
    """The server's split; empty: `test`, if there is one."""

    @classmethod
    def of(cls, source: str, mark: str, *, is_on_hub: bool) -> "Asked":
        """Return what a mark says, as `names.place_and_mark` returns it; a folder has no configurations.

        Raises:
            ConfigError: a key or a value is not allowed.
        """
        size, options = size_and_options(mark)
        further = [*([f"{CONFIG}=NAME"] if is_on_hub else []), *FURTHER]
        keys = [option.partition("=")[0] for option in further]
        own = {key: value for key, value in options if key in keys}
        if SHARE.fullmatch(own.get(TEST, "")):
            del own[TEST]
        table = Options.of(source, [(key, value) for key, value in options if key not in own], further)
        if (tokens := own.get(TOKENS, "")) not in ("", *TOKENISERS):
            allowed = ", ".join(TOKENISERS)
            raise ConfigError(
                f"{source}: {TOKENS} = {tokens}; allowed: {allowed}; lists of tokens need none", ("dataset",)
            )
        for key in (LENGTH, PAD):
            if not own.get(key, "1").isdecimal() or own.get(key) == "0" and key == LENGTH:
                raise ConfigError(f"{source}: {key} = {own[key]}; expected a whole number", ("dataset",))
        length, pad = (int(own[key]) if key in own else None for key in (LENGTH, PAD))
        [column] = composed([own.get(INPUT, "")])
        table = replace(table, input=column)
        return cls(table, size, tokens, length, pad, own.get(TRAIN, ""), own.get(TEST, ""))

    def splits(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the splits of the pool, and those of the server's test set; none: a share is drawn.

        `names` are those that there are.

        Raises:
            ConfigError: one that is asked for is not there, or on both sides.
        """
        source, default = self.table.source, TRAIN if TRAIN in names or len(names) > 1 else names[0]
        held, tested = (self.train or default).split("+"), [self.test] if self.test else []
        if not tested and self.table.share is None and TEST in names and TEST not in held:
            tested = [TEST]
        for key, chosen in ((TRAIN, held), (TEST, tested)):
            for split in chosen:
                if split not in names:
                    raise ConfigError(
                        f"{source} has no split {split}, but {', '.join(names)}; name one, #{key}=SPLIT",
                        ("dataset",),
                    )
        if both := set(held) & set(tested):
            raise ConfigError(
                f"{source}: split {both.pop()} cannot be both {TRAIN} and {TEST}; {TEST}=0.2 draws a share",
                ("dataset",),
            )
        return held, tested
