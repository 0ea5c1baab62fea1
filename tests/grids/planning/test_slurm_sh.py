"""clusters/slurm.sh with stand-ins for Slurm, Ray and fedgrid. Under a real Slurm: tests/cluster/slurm.sh."""

import re
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "clusters/slurm.sh"
LIMIT = 60
"""Seconds after which a test gives up."""
NOTE = 'echo "$(basename "$0") $* [$RAY_AUTH_MODE $RAY_ADDRESS]" >> "$LOG"\n'
# Like Ray's: notes the address, and ends when it is told to.
RAY = """
for word; do case $word in --temp-dir=*) folder=${word#*=} ;; esac; done
stat --format='%a' "${folder%/ray}" >> "$LOG.modes"
echo "$folder" >> "$LOG.folders"
[ -z "$RAY_FAILS" ] || { echo "no such luck"; exit 7; }
mkdir "$folder"
trap 'exit 1' TERM
echo $$ >> "$LOG.ray"
echo 10.1.0.7:43210 > "$folder/ray_current_cluster"
while :; do sleep 0.05; done
"""
STAND_INS = {
    "ray": NOTE + RAY,
    # Runs the step, told its number of GPUs, as a child; a signal of its own ends nothing.
    "srun": NOTE + 'while [ "$1" != bash ]; do shift; done\n'
    'SLURM_GPUS_ON_NODE=2 "$@" & echo $! >> "$LOG.steps"; wait $!\n',
    "scancel": NOTE + 'kill -TERM $(cat "$LOG.steps" "$LOG.ray") 2> "$LOG.gone"; exit 0\n',
    # Waits for the other machines, which are one step here.
    "python": NOTE + 'until [ "$(wc -l < "$LOG.ray")" = 2 ]; do sleep 0.05; done\n',
    "hostname": "echo 10.1.0.7 10.2.0.7\n",
    "fedgrid": NOTE,
}


@pytest.fixture
def job(tmp_path):
    """Return a function that starts the script in a job of this many nodes."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, text in STAND_INS.items():
        (programs / name).write_text("#!/bin/bash\n" + text)
        (programs / name).chmod(0o755)

    def start(nodes: int, *arguments: str, **more: str) -> "subprocess.Popen[str]":
        job = {"SLURM_JOB_ID": "12345", "SLURM_JOB_NUM_NODES": str(nodes), "SLURM_CPUS_PER_TASK": "16"}
        here = {"SLURM_SUBMIT_DIR": str(tmp_path), "SLURMD_NODENAME": "node1", "USER": "me"}
        return subprocess.Popen(
            ["bash", SCRIPT, *arguments],
            env=job | here | {"PATH": "/usr/bin:/bin", "LOG": str(tmp_path / "log")} | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def noted(folder: Path, name: str) -> list[str]:
    lines = (folder / "log").read_text().splitlines()
    return [line for line in lines if line.startswith(f"{name} ")]


def test_directives_come_before_the_first_command_and_errors_stop_it():
    subprocess.run(["bash", "-n", SCRIPT], check=True)
    lines = SCRIPT.read_text().splitlines()
    directives = [number for number, line in enumerate(lines) if line.startswith("#SBATCH")]
    first_command = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    # Slurm reads no directive after the first command.
    assert max(directives) < first_command
    assert lines[first_command] == "set -euo pipefail"


def test_a_requeued_job_appends_to_its_output_and_has_time_before_its_limit():
    text = SCRIPT.read_text()
    assert {"#SBATCH --requeue", "#SBATCH --open-mode=append"} <= set(text.splitlines())
    assert re.search(r"^#SBATCH --signal=B:USR1@\d+", text, re.MULTILINE)
    # With it a job whose first machine has failed stays in the queue, without a script, until its time limit.
    assert "--no-kill" not in text


def test_ray_is_a_step_on_every_machine_and_fedgrid_runs_on_the_first(job, tmp_path):
    process = job(4, "paper", "--seeds", "0..4")
    assert process.wait(LIMIT) == 0
    head, others = noted(tmp_path, "srun")
    step = "srun --overlap --cpus-per-task=16 --kill-on-bad-exit=0"
    assert head.startswith(f"{step} --nodes=1 --ntasks=1 --nodelist=node1 bash -c")
    assert others.startswith(f"{step} --nodes=3 --ntasks=3 --exclude=node1 bash -c")
    text = (tmp_path / "log").read_text()
    assert text.count("--head --node-ip-address=10.1.0.7 --port=0 --disable-usage-stats [token ]") == 2
    assert text.count("--address=10.1.0.7:43210 [token 10.1.0.7:43210]") >= 1
    assert noted(tmp_path, "python") == [
        "python -m fedgrid.grids.ray_cluster.joined 4 [token 10.1.0.7:43210]"
    ]
    assert noted(tmp_path, "fedgrid") == ["fedgrid run paper --seeds 0..4 [token 10.1.0.7:43210]"]
    assert noted(tmp_path, "scancel") == ["scancel --quiet --signal=TERM 12345 [token 10.1.0.7:43210]"]


def test_no_port_is_fixed_and_ray_has_the_cores_and_gpus_of_its_step(job, tmp_path):
    assert job(1, "paper").wait(LIMIT) == 0
    [started] = noted(tmp_path, "ray")
    ports = re.findall(r"--\S*port=(\d+)", started)
    assert ports == ["0", "0", "0", "0"]
    assert "--num-cpus=16 --num-gpus=2 " in started


def test_a_job_of_one_machine_listens_on_loopback(job, tmp_path):
    assert job(1, "paper").wait(LIMIT) == 0
    [started] = noted(tmp_path, "ray")
    assert "--node-ip-address=127.0.0.1 " in started
    assert noted(tmp_path, "python") == []


def test_two_jobs_of_one_number_have_folders_of_their_own_which_are_removed(job, tmp_path):
    """A job that Slurm requeues keeps its number."""
    for _ in range(2):
        assert job(1, "paper").wait(LIMIT) == 0
    folders = [Path(line) for line in (tmp_path / "log.folders").read_text().splitlines()]
    assert len(set(folders)) == 2
    assert (tmp_path / "log.modes").read_text() == "700\n700\n"
    assert not [folder for folder in folders if folder.parent.exists()]
    # With the longest names that Ray makes below it, a socket's path has at most 107 characters.
    assert all(len(str(folder)) <= 35 for folder in folders)


def test_what_ray_says_is_shown_if_it_does_not_start(job, tmp_path):
    process = job(1, "paper", RAY_FAILS="yes")
    out, _ = process.communicate(timeout=LIMIT)
    assert process.returncode != 0
    assert "no such luck" in out
    assert noted(tmp_path, "fedgrid") == []


@pytest.mark.parametrize("signal", ["USR1", "TERM"])
def test_a_signal_of_slurms_reaches_fedgrid_whose_exit_code_is_the_jobs(job, tmp_path, signal):
    driver = tmp_path / ".venv" / "bin" / "fedgrid"
    driver.write_text(
        "#!/bin/bash\ntrap 'echo asked >> \"$LOG.asked\"; exit 130' TERM\n"
        # The shell that waits for this process is its parent.
        f"sleep 0.3; kill -{signal} $PPID\nwhile :; do sleep 0.05; done\n"
    )
    assert job(1, "paper").wait(LIMIT) == 130
    assert (tmp_path / "log.asked").read_text() == "asked\n"
