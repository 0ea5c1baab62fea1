"""Data sets of the Hugging Face hub: which revision a name means, and where its files are.

A run names a data set by the commit, which is the same wherever it is fetched:
`hf:flwrlabs/femnist#client=writer_id,label=character@<40 digits>`. The package `datasets` fetches it into its
cache, and is imported for that alone; what it has fetched once needs no network.
"""

from functools import lru_cache
from pathlib import Path

from fedgrid.engine.federation.data.names import (
    COMMIT,
    CONFIG,
    HUB,
    parse_hub_name,
    split_mark,
    strip_digest,
)
from fedgrid.engine.federation.errors import DataError
from fedgrid.engine.runtime.data import own_images

PACKAGE = 'pip install "fedgrid[hf]"'
DEFAULT = "default"
"""Configuration of data sets that have one only; it is left out of names."""
CAUSE = 300
"""Characters of an error's text at most."""
SCRIPT = "scripts are no longer supported"
"""Part of the error of a data set that is a program."""


def locate_dataset(dataset: str) -> tuple[str, Path]:
    """Find what a run calls a data set on the hub, and the folder with its files, fetched if need be.

    Raises:
        DataError: the hub does not have it, or it is not in the cache and cannot be fetched.
    """
    stored = own_images.find_place(dataset)
    # The cache may have been emptied since.
    if stored is not None and stored.exists():
        return dataset, stored
    named = parse_hub_name(dataset)
    assert named is not None, "a folder is not fetched"
    repository, revision = named
    _, mark = split_mark(strip_digest(dataset))
    items = mark.removeprefix("#").split(",") if mark else []
    config_items = [item for item in items if item.startswith(f"{CONFIG}=")]
    config = config_items[0].partition("=")[2] if config_items else ""
    folder = _find_folder(repository, find_commit(repository, revision), config)
    # Folders of the cache are DATASET/CONFIGURATION/VERSION/COMMIT. A run names the configuration even if the
    # user left it out, because the default may change.
    if not config_items and (config := folder.parent.parent.name) != DEFAULT:
        items.append(f"{CONFIG}={config}")
    mark = f"#{','.join(sorted(items))}" if items else ""
    return own_images.register_place(f"{HUB}:{repository}{mark}@{folder.name}", folder), folder


@lru_cache(maxsize=8)
def find_commit(repository: str, revision: str) -> str:
    """Find the commit that a revision is now, empty: the newest; without a network that of the cache.

    Raises:
        DataError: the hub does not have it, or cannot be reached.
    """
    name = f"{HUB}:{repository}{revision and '@'}{revision}"
    try:
        import datasets  # noqa: F401  It brings the hub's package with it.
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise DataError(
            f"{name}: data sets of the Hugging Face hub need the package datasets: {PACKAGE}"
        ) from error
    if COMMIT.fullmatch(revision):
        return revision
    try:
        # The smallest file that every data set has; the folder of a snapshot has the commit as its name.
        folder = snapshot_download(
            repository, repo_type="dataset", revision=revision or None, allow_patterns="README.md"
        )
    except Exception as error:
        # Whatever the hub, the network and the cache raise.
        raise _build_error(name, repository, error) from error
    return Path(folder).name


@lru_cache(maxsize=8)
def _find_folder(repository: str, commit: str, config: str) -> Path:
    """Find the folder of a configuration, empty: the default one; its name is the commit."""
    import datasets

    if cached := _list_cached(repository, config or DEFAULT, commit):
        return cached[0]
    try:
        builder = datasets.load_dataset_builder(repository, config or None, revision=commit)
        if builder.hash == commit:  # Without a network it may be of another commit.
            builder.download_and_prepare()
            return Path(builder.cache_dir)
        problem: Exception = ConnectionError("no answer")
    except Exception as error:
        # Whatever the hub, the network and a damaged data set raise.
        problem = error
    cached = _list_cached(repository, config or "*", commit)
    if len(cached) == 1:
        return cached[0]
    raise _build_error(f"{HUB}:{repository}@{commit}", repository, problem) from problem


def _list_cached(repository: str, config: str, commit: str) -> list[Path]:
    """List the folders of a data set's configurations in the cache of `datasets`."""
    from datasets import config as settings
    from datasets.naming import camelcase_to_snakecase

    owner, slash, own = repository.rpartition("/")
    root = Path(settings.HF_DATASETS_CACHE, f"{owner}{slash and '___'}{camelcase_to_snakecase(own)}")
    return sorted(folder for folder in root.glob(f"{config}/*/{commit}") if COMMIT.fullmatch(folder.name))


def _build_error(name: str, repository: str, error: Exception) -> DataError:
    """Build the error of a data set that could not be fetched, with what the cache has."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    cause = " ".join(str(error).split())
    if isinstance(error, ConnectionError | LocalEntryNotFoundError):
        commits = [folder.name for folder in _list_cached(repository, "*", "*")]
        there = f"has {HUB}:{repository}@{commits[-1]}" if commits else "does not have it"
        return DataError(
            f"{name}: the Hugging Face hub cannot be reached, and the cache {there}; take what it has, or "
            f"fetch it where there is a network; a folder is {HUB}:./PATH"
        )
    if SCRIPT in cause:
        return DataError(
            f"{name} is a program, and none is run for data; many have their tables too: "
            f"{HUB}:{repository}@refs/convert/parquet"
        )
    return DataError(
        f"{name} could not be fetched: {cause[:CAUSE] or type(error).__name__}; check its name, revision and "
        f"#{CONFIG}=NAME; a folder is {HUB}:./PATH"
    )
