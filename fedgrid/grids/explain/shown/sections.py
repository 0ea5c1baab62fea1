"""The sections of a report on a grid's own explanations, one for each style and number of clients."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from fedgrid.grids.explain.shown.figures import mean_curves
from fedgrid.grids.explain.shown.maps import map_grid
from fedgrid.grids.explain.shown.results import ExplainedGrid, ShownMap, sentence
from fedgrid.grids.explain.shown.scores import scores_section
from fedgrid.grids.explain.shown.tables import own_scores
from fedgrid.tracking.explained.scores import DISTRIBUTIONS
from fedgrid.tracking.report.page import Choice, Plate, Section, add_words
from fedgrid.tracking.scoring.study import plain, split_name


def own_sections(own: Mapping[str, ExplainedGrid], *, published: bool) -> Iterator[Section]:
    """Yield the sections of a grid's own explanations; `own` are those by style, empty for the default.

    With `published` they are beside the published scores.
    """
    for style, grid in own.items():
        for clients in sorted({model.scenario[1] for model in grid.explained}):
            part = grid.of_clients(clients)
            beside = scores_section(part.explained, clients)
            compared = beside.items if published else beside.items[1:]
            section = Section(
                beside.name,
                beside.title,
                " ".join(filter(None, (part.about, beside.text, *_sentences(part), *part.lacking))),
                items=(*_own_items(part, clients), *compared),
            )
            yield add_words(section, [style] if style else [])


def _sentences(grid: ExplainedGrid) -> Iterator[str]:
    yield from (sentence(grid, on) for on in DISTRIBUTIONS)


def _own_items(grid: ExplainedGrid, clients: int) -> Iterator[Choice]:
    distributions = [on for on in DISTRIBUTIONS if any(one.on == on for one in grid.explained)]
    yield Choice(tuple((on, own_scores(grid.explained, on)) for on in distributions))
    yield Choice(tuple((on, _curves(grid, on, clients)) for on in distributions))
    plates = [
        (f"{scenario[0]}, images of {on}", _maps(chosen, on, clients))
        for on in distributions
        for scenario in dict.fromkeys(one.scenario for one in grid.shown if one.on == on)
        if (chosen := [one for one in grid.shown if (one.on, one.scenario) == (on, scenario)])
    ]
    if plates:
        yield Choice(tuple(plates))


def _curves(grid: ExplainedGrid, on: str, clients: int) -> Plate:
    bands = [band for band in grid.bands if band.on == on]
    counts = ", ".join(f"{band.algorithm} {band.images}" for band in bands)
    return Plate(
        f"explanation-curves-{on}-{clients}",
        f"Mean insertion and deletion curves, {DISTRIBUTIONS[on]}, {clients} clients",
        "Probability of the explained class while pixels are put in, or taken out, the most salient first; "
        f"bands: quartiles of the images; dashed: the same images in a random order. Images: {counts}.",
        partial(mean_curves, bands, on),
    )


def _maps(shown: Sequence[ShownMap], on: str, clients: int) -> Plate:
    scenario = shown[0].scenario
    return Plate(
        f"explanation-maps-{on}-{plain(str(scenario[0]))}-{clients}",
        f"Maps of the same images, {DISTRIBUTIONS[on]}, {scenario[0]}, {clients} clients",
        "The first image drawn for a client, then its map by each algorithm's model for that client, of the "
        "class that it says, scaled to 0..1, over the image in grey; green: it is right. "
        f"Scenario {split_name(scenario[2])}, seed {shown[0].seed}.",
        partial(map_grid, shown),
    )
