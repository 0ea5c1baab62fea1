"""The pictures of docs/toys.md: each carries its partitions, which the algorithms must give again."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from docs import toys

PAGE = (Path(toys.__file__).parent / "toys.md").read_text()


@pytest.mark.parametrize("picture", toys.TOYS)
def test_picture_is_of_what_the_algorithm_does(picture):
    name, settings, world = toys.TOYS[picture]
    story = toys.play_story(name, settings, world)
    drawn = Image.open(toys.FOLDER / f"{picture}.png").text["Description"]
    assert json.loads(drawn) == story.labels_RK.tolist(), "python docs/toys.py draws it again"
    assert f"(toys/{picture}.png)" in PAGE


def test_one_model_goes_to_the_mean_of_all_points(monkeypatch):
    """After each round a share of 0.65 of the way is left; after twelve 0.65^12 = 0.0057, without noise."""
    monkeypatch.setattr(toys, "NOISE", 0.0)
    world = toys.make_three_groups()
    story = toys.play_story("fedavg", {}, world)
    mean_2 = world.points_K2.mean(axis=0)
    left_2 = 0.65**12 * (np.array(toys.START) - mean_2)
    np.testing.assert_allclose(story.models_RK2[-1], np.tile(mean_2 + left_2, (12, 1)), atol=1e-5)
