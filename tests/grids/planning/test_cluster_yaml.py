"""The cluster files of the repository: valid for Ray, pinned versions, no port open to the world."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray._common.utils import load_class
from ray._private.ray_constants import RAY_START_HOOK
from ray.autoscaler._private.util import prepare_config, validate_config

from fedgrid.grids.ray_cluster.start_hook import no_client_server

ROOT = Path(__file__).parents[3]
RAY_UP = ["cluster.yaml", "clusters/aws.yaml", "clusters/gcp.yaml"]
ALL = [*RAY_UP, "clusters/Dockerfile", "clusters/kuberay.yaml", "clusters/slurm.sh"]


def pinned(package: str) -> str:
    """Return the version of `package` that constraints.txt names."""
    found = re.search(rf"^{package}==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert found
    return found[1]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def prepared(name: str) -> dict[str, Any]:
    """Return a file as `ray up` reads it, with Ray's defaults."""
    config: dict[str, Any] = prepare_config(read(name))
    validate_config(config)
    return config


@pytest.mark.parametrize("name", RAY_UP)
def test_ray_accepts_the_cluster_file_and_adds_no_commands(name: str) -> None:
    config = prepared(name)
    commands = ("setup_commands", "head_start_ray_commands", "worker_start_ray_commands")
    assert {key: config[key] for key in commands} == {key: read(name)[key] for key in commands}


@pytest.mark.parametrize("name", RAY_UP)
def test_ray_starts_with_a_token_and_its_dashboard_on_loopback(name: str) -> None:
    config = prepared(name)
    assert "export RAY_AUTH_MODE=token\n" in config["setup_commands"][-1]
    assert config["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"
    assert "--dashboard-host=127.0.0.1" in config["head_start_ray_commands"][-1]


@pytest.mark.parametrize("name", RAY_UP)
def test_the_head_opens_no_port_for_clients_that_nobody_uses(name: str) -> None:
    """Ray's server for `ray://` addresses has port 10001 of all addresses, unless the hook is named."""
    *_, start = prepared(name)["head_start_ray_commands"]
    named = re.search(rf"\b{RAY_START_HOOK}=(\S+) ray start --head ", start)
    assert named
    assert load_class(named[1]) is no_client_server


@pytest.mark.parametrize("name", RAY_UP)
def test_cluster_file_mounts_all_that_the_set_up_needs(name: str) -> None:
    config = prepared(name)
    ours = {remote: local for remote, local in config["file_mounts"].items() if "fedgrid" in remote}
    assert set(ours) == {f"~/fedgrid/{local}" for local in ours.values()}
    assert all((ROOT / local).exists() for local in ours.values())
    assert "cd ~/fedgrid && make .venv/installed" in config["setup_commands"]


@pytest.mark.parametrize("name", RAY_UP)
def test_cluster_commands_are_valid_shell(name: str) -> None:
    config = prepared(name)
    for key in ("head_setup_commands", "worker_setup_commands", "head_start_ray_commands"):
        for command in config[key]:
            subprocess.run(["bash", "-n", "-c", command], check=True)


def test_set_up_adds_the_environment_to_bashrc_once(tmp_path: Path) -> None:
    write = prepared("cluster.yaml")["setup_commands"][-1]
    (tmp_path / "fedgrid").mkdir()
    (tmp_path / ".bashrc").write_text("# the user's\n")
    for _ in range(2):
        subprocess.run(
            ["bash", "-c", write], check=True, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        )
    assert (tmp_path / ".bashrc").read_text() == "# the user's\n. ~/fedgrid/environment\n"
    shown = subprocess.run(
        ["bash", "-c", '. ~/fedgrid/environment; echo "$PATH $FEDGRID_STORAGE"'],
        env={"HOME": str(tmp_path), "PATH": "/bin"},
        capture_output=True,
        text=True,
    )
    assert shown.stdout == f"{tmp_path}/fedgrid/.venv/bin:/bin /srv/fedgrid/runs\n"


def test_cluster_yaml_uses_all_its_machines() -> None:
    config = prepared("cluster.yaml")
    workers = len(config["provider"]["worker_ips"])
    assert config["max_workers"] == workers
    assert config["available_node_types"]["local.cluster.node"]["min_workers"] == workers


def test_kuberay_manifest_has_the_pinned_ray_version() -> None:
    manifest = read("clusters/kuberay.yaml")
    spec = manifest["spec"]
    assert (manifest["apiVersion"], manifest["kind"]) == ("ray.io/v1", "RayCluster")
    assert (spec["rayVersion"], spec["authOptions"]) == (pinned("ray"), {"mode": "token"})
    assert spec["headGroupSpec"]["rayStartParams"]["dashboard-host"] == "127.0.0.1"
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    pods = [group["template"]["spec"] for group in groups]
    assert len({pod["containers"][0]["image"] for pod in pods}) == 1
    for pod in pods:
        [container] = pod["containers"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
        assert {"cpu", "memory"} <= set(container["resources"]["limits"])


def test_docker_image_has_the_pinned_ray_version() -> None:
    assert f"\nFROM rayproject/ray:{pinned('ray')}-py311-gpu\n" in (ROOT / "clusters/Dockerfile").read_text()


@pytest.mark.parametrize("name", ALL)
def test_cluster_files_open_no_port_to_the_world_and_pin_versions(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "0.0.0.0" not in text
    assert not re.search(r"nightly|latest|\.whl|curl|wget", text)
    installed = re.findall(r"pip install (?:--\S+ )*([A-Za-z][\w.-]*\S*)", text)
    assert all("==" in package for package in installed)
