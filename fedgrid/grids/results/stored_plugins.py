"""The plugins of a grid's runs, stored in its folder as `plugins/<digest>.py`, with an index `plugins.json`.

With these a grid can be retried when the user's file has changed or is gone, if the user trusts the storage.
Reports read the index alone, and execute no plugin.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from fedgrid.algorithms.registry import register_titles
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.plugin import PluginSource, digest_code
from fedgrid.engine.runtime.storage.format import DamagedFile, unseal_file
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.sealed_json import seal_values

FOLDER, INDEX = "plugins", "plugins.json"


@dataclass(frozen=True)
class PluginEntry:
    """One plugin's line in the index: its name, and what tables need of its algorithms."""

    plugin: str
    """Its name: the file as the user named it, or `package 1.2`."""
    titles: dict[str, str] = field(default_factory=dict)
    """Algorithm -> what tables call it."""
    references: list[str] = field(default_factory=list)
    """The algorithms that are references."""


_INDEX = TypeAdapter(dict[str, PluginEntry])


def find_missing_files(folder: Path, runs: Iterable[RunConfig]) -> dict[str, str]:
    """Find the plugins of runs that a grid's `folder` lacks, as file name -> text; the index comes last.

    Installed packages have a line in the index only. A plugin that this process has not loaded was stored by
    an earlier launch, or cannot be stored.
    """
    index = read_index(folder)
    texts: dict[str, str] = {}
    for source in active.list_sources(digest for run in runs for digest in run.plugin_digests):
        if source.digest not in index:
            descriptions = active.find_titles(source.digest), active.find_references(source.digest)
            index[source.digest] = PluginEntry(source.name, *descriptions)
            if source.code is not None:
                texts[_file_name(source.digest)] = source.code.decode()
    if texts or index.keys() - read_index(folder).keys():
        texts[INDEX] = seal_values(_INDEX.dump_python(index), indent=2)
    return texts


def read_plugin_files(folder: Path, runs: Iterable[RunConfig]) -> dict[str, bytes]:
    """Read the files of the plugins of a grid's runs, and an index that names no folders; {} without plugins.

    Raises:
        ConfigError: the index is damaged, or a plugin's file has changed or is gone.
    """
    index, copied = read_index(folder), dict[str, bytes]()
    chosen = sorted(index.keys() & {digest for run in runs for digest in run.plugin_digests})
    for digest in chosen:
        source = _read_source(folder / _file_name(digest), digest, index[digest].plugin)
        name = index[digest].plugin
        # The folder of the user's file says nothing elsewhere, and may hold the user's name.
        index[digest] = replace(index[digest], plugin=Path(name).name if name.endswith(".py") else name)
        if source.code is not None:
            copied[_file_name(digest)] = source.code
        elif name.endswith(".py"):
            raise ConfigError(f"plugin {name} of this grid is not kept in {folder}: repeat `fedgrid run`")
    # Only the plugins of these runs: others of the grid may be nobody else's business.
    listed = {INDEX: seal_values(_INDEX.dump_python({digest: index[digest] for digest in chosen})).encode()}
    return copied | listed if chosen else {}


def read_index(folder: Path) -> dict[str, PluginEntry]:
    """Read the index of plugins, by digest; empty if there is none.

    Raises:
        ConfigError: it is damaged, or of another fedgrid.
    """
    try:
        return _INDEX.validate_python(unseal_file(folder / INDEX))
    except FileNotFoundError:
        return {}
    except (DamagedFile, ValidationError) as error:
        cause = error if isinstance(error, DamagedFile) else f"{folder / INDEX} is not an index of plugins"
        raise ConfigError(f"{cause}; move it away, and repeat the grid's `fedgrid run`") from error


def register_plugin_titles(folder: Path) -> None:
    """Register the titles of the algorithms of a grid's plugins, and which of them are references."""
    index = read_index(folder).values()
    titles = {name: " ".join(title.split()) for plugin in index for name, title in plugin.titles.items()}
    register_titles(titles, [name for plugin in index for name in plugin.references])


def find_other_versions(folder: Path, runs: Iterable[RunConfig]) -> set[str]:
    """Find the digests of a grid's plugins of which `runs` have another version, an edit of the file."""
    names = {digest: _plain_name(plugin.plugin) for digest, plugin in read_index(folder).items()}
    in_use = {digest for run in runs for digest in run.plugin_digests}
    names_in_use = {names[digest] for digest in in_use if digest in names}
    return {digest for digest, name in names.items() if name in names_in_use and digest not in in_use}


def _plain_name(name: str) -> str:
    """Drop the folder of a plugin's file, or the version of its package."""
    # A package is named with its version, as `package 1.2`.
    return Path(name).name if name.endswith(".py") else name.rpartition(" ")[0] or name


def restore_plugins(folder: Path, storage: Storage, runs: Iterable[RunConfig], *, trust: bool) -> None:
    """Activate the plugins of `runs`: those in use already, and the others as stored in `folder`.

    A stored file is executed only with `trust`, and if its bytes have the digest that the run names. The
    digest is no proof: a person who sends a storage has written both.

    Args:
        folder: the grid's folder.
        storage: the storage that has it, from which missing files are fetched.
        runs: the runs to compute.
        trust: the user allows to execute the stored files.

    Raises:
        ConfigError: if a plugin is neither in use nor stored, its file has changed, or is not trusted.
    """
    runs = list(runs)
    digests = sorted({digest for run in runs for digest in run.plugin_digests})
    in_use = {source.digest for source in active.list_sources(digests)}
    index = read_index(folder)
    for digest in digests:
        if digest not in in_use:
            path = folder / _file_name(digest)
            # At a URI the mirror may lack the file, or have one that somebody has replaced since.
            storage.refresh(storage.name_path(path))
            entry = index.get(digest)
            source = _read_source(path, digest, entry.plugin if entry else None)
            if source.code is not None and not trust:
                raise ConfigError(_explain_refusal(path, digest, entry))
            active.register_sources([source])
    for run in runs:
        active.activate_plugins(run.plugin_digests)


def _explain_refusal(path: Path, digest: str, entry: PluginEntry | None) -> str:
    """Explain which code was not executed, how to read it, and which other edit of it `--plugin` named."""
    name = _plain_name(entry.plugin) if entry else "of a name that is not kept"
    algorithms = ", ".join(entry.titles) if entry else ""
    whose = f"plugin {name}" + (f" (algorithm {algorithms})" if algorithms else "")
    named = next((source for source in active.list_plugin_files() if _plain_name(source.name) == name), None)
    other = f"--plugin {named.name} is another edit of it, digest {named.digest[:12]}. " if named else ""
    return (
        f"these runs need {whose}, digest {digest[:12]}. {other}The copy in the storage was not executed: "
        f"anybody who can write there can change it. Read {path}, then add --trust, or name your own copy "
        "with --plugin"
    )


def _read_source(path: Path, digest: str, name: str | None) -> PluginSource:
    """Read a plugin's stored file and check its digest; without code if it is a package of this `name`."""
    if name is not None and not path.exists():
        return PluginSource(name, digest, None)
    try:
        code = path.read_bytes()
    except OSError as error:
        cause = error.strerror or error
        raise ConfigError(
            f"plugin {path} of this grid cannot be read: {cause}; name the file, as it was, with --plugin"
        ) from error
    if digest_code(code) != digest:
        raise ConfigError(
            f"{path} is not what its name says: it was changed after the grid was launched, and is not "
            "executed; name its unchanged file with --plugin"
        )
    return PluginSource(str(path), digest, code)


def _file_name(digest: str) -> str:
    """Format the name of a plugin's file in the grid's folder."""
    return f"{FOLDER}/{digest}.py"
