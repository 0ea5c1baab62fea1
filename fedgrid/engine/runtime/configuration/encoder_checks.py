"""Whether the encoder that a run names fits its images, known before anything starts."""

from pathlib import Path

from fedgrid.algorithms.contract.encoder import REFERENCE, EncoderSettings, kind_of
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.data.datasets import find


def check_encoder(
    settings: EncoderSettings | None, dataset: str, has_reference_images: bool, data_dir: Path
) -> None:
    """Check that the encoder that a run names fits its images.

    Raises:
        ConfigError: its public set is unknown, has images of another shape, or is the run's own data set.
    """
    if settings is None:
        return
    if settings.noise and kind_of(settings, find(dataset, data_dir).shape) == "convolutional":
        raise ConfigError(
            f"encoder.noise = {settings.noise:g}: the convolutional encoder has BatchNorm buffers, which no "
            "clip bounds and no noise covers; take encoder.name = dense",
            ("algorithm", "encoder", "noise"),
        )
    if settings.public is None:
        return
    where, key = f"encoder.public = {settings.public}", ("algorithm", "encoder", "public")
    if settings.public == REFERENCE:
        if not has_reference_images:
            raise ConfigError(f"{where}: the server has none; set split.reference_images", key)
        return
    own, public = find(dataset, data_dir), find(settings.public, data_dir)
    if public.name == own.name:
        raise ConfigError(
            f"{where}: that is the clients' own data set; take another one, or {REFERENCE} for the server's "
            "reference images",
            key,
        )
    kind = kind_of(settings, own.shape)
    matters = slice(0, 1) if kind == "convolutional" else slice(None)
    if public.shape[matters] != own.shape[matters]:
        sizes = ["x".join(map(str, shape)) for shape in (public.shape, own.shape)]
        needs = "as many channels" if kind == "convolutional" else "the same shape"
        raise ConfigError(
            f"{where}: its images are {sizes[0]}, those of {dataset} are {sizes[1]}, and a {kind} encoder "
            f"needs {needs}; take another public set, or encoder.federated",
            key,
        )
