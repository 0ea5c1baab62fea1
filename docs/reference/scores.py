"""The page of the numbers that are recorded for each round, and of the scores that are computed from them."""

from collections.abc import Iterable, Iterator

from docs.reference.markdown import code, page, table
from fedgrid.grids.cli.actions.reference import computed_scores, recorded_numbers
from fedgrid.grids.trackers.names import metric_meanings, strip_section


def pages() -> dict[str, str]:
    """Return path -> text of the page."""
    return {
        "reference/scores.md": page(
            "# Scores and numbers of a round",
            "Their names are those of `fedgrid show --columns`, `fedgrid table --score`, "
            "`fedgrid report --target`, `Study.to_pandas()` and `Run.curves`. A number without a name in "
            "MLflow is not logged there. On the terminal: `fedgrid list columns`.",
            "## Recorded",
            "In `rounds.parquet`, a row a round; null in older records that lack the column. An algorithm "
            'returns numbers of its own in `Diagnostics(metrics={"name": value})`; `numbers` of its entry '
            "declare them.",
            table(("recorded", "in MLflow", "meaning"), _rows(recorded_numbers().items())),
            "With `embeddings` and `ladd` there are `message_bytes` (what newcomers said in a round) and "
            "`encoder_bytes` (the encoder's federated training and its way to newcomers) too. Both are part "
            "of `bytes_up` and `bytes_down`.",
            "## Computed",
            "From the records, for our runs and for the authors' archive alike. Each is declared as a "
            "`Score` in `tracking/scoring`; a measure of a table takes one by name: "
            '`last_round("last F1", "personalised_f1")`. Those that begin with `worse_than` compare runs of '
            "a grid: they are in `fedgrid table`, in reports and in `Study.to_pandas()`.",
            table(("score", "in MLflow", "meaning"), _rows(computed_scores().items())),
        )
    }


def _rows(meanings: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    in_mlflow = {strip_section(key): code(key) for key in metric_meanings()}
    return ((code(name), in_mlflow.get(name, ""), meaning) for name, meaning in meanings)
