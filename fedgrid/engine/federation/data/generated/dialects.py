"""Dialects: sentences in three dialects of one small language, as characters, with their meaning as class.

A sentence is a phrase, a verb and a phrase; a phrase is a noun, after an adjective in half of the cases. Four
meanings are the classes, and two verbs have each. The first means the same in all dialects; the second is a
false friend, whose meaning in dialect g is g places further. Dialects prefer other nouns, and so other
letters: of 12 nouns the one of rank r has a probability in proportion to r^-0.5, and each dialect begins to
count at another noun. A model of one dialect is right for half of another's sentences. One model for all can
guess the dialect from the nouns only, and is right for 77 % at best.

Source: ours.

Shapes: G dialects, N sentences, T characters.
"""

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.seeds import make_generator

NOUNS = ("ako", "belu", "dino", "fasi", "gero", "hiba", "juko", "lamo", "nepi", "osu", "puda", "vike")
ADJECTIVES = ("bo", "feg", "hin", "kal", "nu", "sop")
TRUE_FRIENDS = ("wap", "zeb", "quim", "toch")
FALSE_FRIENDS = ("lut", "yar", "mos", "dren")
"""Verbs, by their meanings in the first dialect."""
CHARACTERS = "_ abcdefghijklmnopqrstuvwxyz"
"""Alphabet: a character's token is its position. The first one, `_`, fills sentences in front, up to
`LENGTH`."""
LENGTH = 24
DIALECTS, MEANINGS, SENTENCES = 3, 4, 2000
"""Number of dialects, of meanings, and of sentences of each dialect."""

Tokens = NDArray[np.int64]
ClassLabels = NDArray[np.int64]


def draw_dialects() -> tuple[list[Tokens], list[ClassLabels]]:
    """Draw each dialect's sentences, shape (N, T), and their meanings, 0 to 3."""
    rng = make_generator(0, "dialects")
    tokens, meanings = [], []
    for dialect in range(DIALECTS):
        before, after = (_draw_phrases(dialect, rng) for _ in range(2))
        meaning_N = rng.integers(MEANINGS, size=SENTENCES)
        is_false_N = rng.integers(2, size=SENTENCES)
        verbs = [
            FALSE_FRIENDS[(meaning - dialect) % MEANINGS] if is_false else TRUE_FRIENDS[meaning]
            for meaning, is_false in zip(meaning_N.tolist(), is_false_N.tolist(), strict=True)
        ]
        text = "".join(" ".join(parts).rjust(LENGTH, "_") for parts in zip(before, verbs, after, strict=True))
        tokens.append(np.array([CHARACTERS.index(one) for one in text]).reshape(SENTENCES, LENGTH))
        meanings.append(meaning_N)
    return tokens, meanings


def _draw_phrases(dialect: int, rng: np.random.Generator) -> list[str]:
    """Draw a phrase for each sentence of a dialect."""
    # Rank r has weight r^-0.5; the roll lets each dialect begin to count at another noun.
    weights = np.roll(np.arange(1, len(NOUNS) + 1) ** -0.5, dialect * len(NOUNS) // DIALECTS)
    nouns = rng.choice(NOUNS, SENTENCES, p=weights / weights.sum()).tolist()
    adjectives = rng.choice(["", *ADJECTIVES], SENTENCES, p=[0.5] + [0.5 / len(ADJECTIVES)] * len(ADJECTIVES))
    return [f"{adjective} {noun}".strip() for adjective, noun in zip(adjectives.tolist(), nouns, strict=True)]
