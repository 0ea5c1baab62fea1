"""What the runs of a bundle need that is not in it, or must not be used unasked: data sets and plugins."""

from collections.abc import Iterable
from pathlib import Path

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.names import digest_in, on_hub
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.data import own_images
from fedgrid.engine.runtime.data.datasets import files_of
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.storage.user_files import absolute
from fedgrid.grids.bundles.layout import STORAGE
from fedgrid.grids.bundles.read import Bundle
from fedgrid.grids.display.plain import warn
from fedgrid.grids.results import kept_plugins
from fedgrid.grids.results.archived import is_archived
from fedgrid.redaction import printable


def know_data(copies: Iterable[Path], runs: Iterable[RunConfig]) -> None:
    """Let runs find the user's copies of data that are the author's own, by their content.

    Raises:
        ConfigError: a copy is not there, or its content is that of none of the runs' data.
    """
    names = sorted({name for run in runs for name in run.own_images})
    for copy in copies:
        place = absolute(copy, "--data")
        if not place.exists():
            raise ConfigError(f"--data {copy}: there is nothing")
        kinds = {name: name.partition(":")[0] for name in names}
        digests = {kind: own_images.digest_of(place, files_of(kind, place)) for kind in {*kinds.values()}}
        matches = {name: str(place) for name in names if digest_in(name) == digests[kinds[name]]}
        if not matches:
            known = ", ".join(names) or "none, so leave it out"
            raise ConfigError(
                f"--data {copy}: its content is that of no data of these runs; they are {known}"
            )
        own_images.know(matches)


def check_plugins(bundle: Bundle, runs: Iterable[RunConfig], *, trust: bool, show: bool) -> None:
    """Print which plugins of a bundle these runs need, beside those in use, and with `show` their code.

    Raises:
        ConfigError: there are some, and they are not trusted. Nothing of them was executed.
    """
    digests = sorted({digest for run in runs for digest in run.plugin_digests})
    in_use = {source.digest for source in active.sources(digests)}
    index, untrusted = kept_plugins.read_index(bundle.grid.path), []
    for digest in digests:
        path = bundle.grid.path / kept_plugins.FOLDER / f"{digest}.py"
        if digest in in_use or not path.exists():
            continue
        code = path.read_bytes().decode("utf-8", "replace")
        name = index[digest].plugin if digest in index else "of no name"
        member = f"{STORAGE}/{path.relative_to(bundle.storage.root).as_posix()}"
        warn(f"plugin {printable(name)}, {len(code.splitlines())} lines, digest {digest[:12]}: {member}")
        untrusted.append(name)
        if show:
            print(printable(code))
    if untrusted and not trust:
        raise ConfigError(
            f"these runs execute {', '.join(untrusted)}, which nobody has checked and was not executed: read "
            "the code (--show prints it), then add --trust, or name your own copy with --plugin"
        )


def lacking(run: RunConfig, bundle: Bundle) -> str:
    """Return why a run cannot be computed here; empty if it can. Its plugins are in use from now on."""
    if is_archived(run):
        return "it was imported from the authors' archive, whose models are not published"
    there = own_images.places(run.own_images)
    if lacks := [name for name in run.own_images if name not in there and not on_hub(name)]:
        return f"it needs {lacks[0]}: name your copy with --data PATH"
    try:
        kept_plugins.restore(bundle.grid.path, bundle.storage, [run], trust=True)
    except ConfigError as error:
        return str(error)
    return ""
