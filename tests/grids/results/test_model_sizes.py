"""The size of a run's model, for the download that a test takes."""

from pathlib import Path

from fedgrid.engine.runtime.configuration.complete import complete
from fedgrid.grids.results.study import model_bytes


def test_the_size_of_digitnet_is_four_bytes_a_parameter():
    """64 -> 128 -> 96 -> 10: 8,320 + 12,384 + 970 parameters, and no buffers."""
    assert model_bytes(complete({"dataset": "digits"}, Path())) == 4 * (8_320 + 12_384 + 970)


def test_buffers_are_sent_too():
    """ResNet-34 with 10 classes has 21,282,122 parameters, and 17,060 entries of BatchNorm buffers."""
    size = model_bytes(complete({"dataset": "cifar10"}, Path())) // 4
    assert size == 21_282_122 + 17_060
