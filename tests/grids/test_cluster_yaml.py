"""cluster.yaml passes Ray's own schema."""

from pathlib import Path

import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

ROOT = Path(__file__).parents[2]


def test_cluster_yaml_is_valid_for_ray() -> None:
    config = prepare_config(yaml.safe_load((ROOT / "cluster.yaml").read_text()))
    validate_config(config)
    assert config["max_workers"] == len(config["provider"]["worker_ips"])


def test_cluster_yaml_exposes_nothing_beyond_loopback() -> None:
    text = (ROOT / "cluster.yaml").read_text()
    assert "--dashboard-host=127.0.0.1" in text
    assert "0.0.0.0" not in text
