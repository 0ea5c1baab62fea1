"""Which runs a grid's files ask for now; its other runs are superseded.

A run is superseded once its file is launched with another content that does not ask for it, or with an
edited plugin. It stays in the storage until `fedgrid delete --superseded` removes it, and is in no report
unless `--superseded` asks for it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.grid import Asks, Grid


@dataclass(frozen=True)
class OfSource:
    """What one file, preset or `asks.OPTIONS` asks for."""

    digest: str
    """As in `Asks`."""
    run_ids: frozenset[str]
    """Those that the grid has."""


SUPERSEDED = "superseded"
JOINED = ""
"""In place of a source: runs that were added without asking for more, as those of a search and an archive."""


def superseded_line(grid: str, count: int, storage: Storage) -> str:
    """Return the line that names a grid's superseded runs, and what to do with them."""
    listing = command(storage, "show", grid, "--superseded")
    deleting = command(storage, "delete", grid, "--superseded")
    return f"{superseded_words(count)}: `{listing}` lists, `{deleting}` deletes"


def superseded_words(count: int) -> str:
    """Return what a page, which is read elsewhere too, says of superseded runs."""
    runs = "1 run of an earlier launch is" if count == 1 else f"{count} runs of earlier launches are"
    return f"{runs} superseded, and left out"


@dataclass(frozen=True)
class Asked:
    """What the launches of a grid ask for."""

    by_source: Mapping[str, OfSource] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Any) -> "Asked":
        """Return what `as_dict` was given.

        Raises:
            pydantic.ValidationError: it was not.
        """
        return cls(_BY_SOURCE.validate_python(values))

    def as_dict(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {
            source: {"digest": of.digest, "run_ids": sorted(of.run_ids)}
            for source, of in self.by_source.items()
        }

    @cached_property
    def ids(self) -> frozenset[str]:
        """The runs that are asked for."""
        return frozenset().union(*(of.run_ids for of in self.by_source.values()))

    def after(
        self,
        runs: Iterable[RunConfig],
        asks: Asks | None,
        plugins: Mapping[str, str],
        others: Iterable[RunConfig],
    ) -> "Asked":
        """Return what is asked for after a launch.

        Args:
            runs: those that are launched.
            asks: as in `Grid`.
            plugins: digest -> name of the grid's plugins, without folder and version.
            others: the other runs of the grid.
        """
        runs = list(runs)
        launched = {run.run_id for run in runs}
        edited = _other_versions(plugins, runs)
        stored = launched | {run.run_id for run in others if edited.isdisjoint(run.plugin_digests)}
        after = {
            source: OfSource(of.digest, of.run_ids & stored)
            for source, of in self._with(launched, asks).items()
        }
        return Asked({source: of for source, of in after.items() if of.run_ids})

    def loses(self, grid: Grid, every: Iterable[RunConfig]) -> list[RunConfig]:
        """Return the runs that a launch of `grid` would supersede, but for those to which it adds rounds.

        `every` are the runs so far. An edited plugin, which makes other runs, is not looked at.
        """
        after = self.after(grid.runs, grid.asks, {}, every).ids
        lost = [run for run in every if run.run_id in self.ids - after]
        return [run for run in lost if not any(longer.adds_rounds(run) for longer in grid.runs)]

    def _with(self, launched: set[str], asks: Asks | None) -> dict[str, OfSource]:
        before = dict(self.by_source)
        if asks is None:
            joined = before.get(JOINED, OfSource("", frozenset()))
            return before | {JOINED: OfSource("", joined.run_ids | (launched - self.ids))}
        before.pop(asks.source, None)
        # A file that was moved says the same in another place.
        same = [source for source, of in self.by_source.items() if of.digest == asks.digest]
        earlier = frozenset().union(*(self.by_source[source].run_ids for source in same))
        left = {source: of for source, of in before.items() if source not in same}
        return left | {asks.source: OfSource(asks.digest, earlier | launched | asks.run_ids)}


_BY_SOURCE = TypeAdapter(dict[str, OfSource])


def _other_versions(plugins: Mapping[str, str], runs: Iterable[RunConfig]) -> set[str]:
    """Return the digests of other versions of the plugins that `runs` have."""
    in_use = {digest for run in runs for digest in run.plugin_digests}
    names = {plugins[digest] for digest in in_use if digest in plugins}
    return {digest for digest, name in plugins.items() if name in names and digest not in in_use}
