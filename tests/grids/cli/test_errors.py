"""Bad input: one line that names the value and what is allowed, exit code 2, nothing started or written."""

import json

import pytest
from pydantic import BaseModel, model_serializer

from fedgrid.grids.cli import main
from tests.helpers.command_line import fedgrid

IN_PROCESS = ("run", "--in-process", "training.rounds=1")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nonsense"], "No such command 'nonsense'; see --help"),
        (["--bogus"], "No such option: --bogus"),
        (["run"], "nothing to run: name a preset (quickstart), a YAML file, or options; see --help"),
        (["run", "--rounds", "3"], "set it with training.rounds=VALUE"),
        (
            ["analyse", "late", "explain", "--algorithm", "fedavg"],
            "--algorithm; --where algorithm=VALUE selects runs",
        ),
        (["show", "late", "--dataset", "mnist"], "--where dataset=VALUE selects runs"),
        (["run", "quikstart"], "unknown preset 'quikstart'; did you mean 'quickstart'?"),
        (["run", "quickstart", "--dry-run", "--name", "a/b"], "a grid named 'a/b': expected letters"),
        (["run", "sattler"], "'sattler' is an algorithm, no preset: fedgrid run --algorithm sattler"),
        (["run", "my-run.yaml"], "no file my-run.yaml; presets: quickstart"),
        (["run", "--algorithm", "xyz"], "unknown algorithm 'xyz'; one of your own: --plugin FILE.py"),
        (["run", "model=mine.py"], "unknown model 'mine.py'; one of your own: --plugin mine.py"),
        (["run", "quickstart", "--plugin", "ok.yaml"], "a grid is named alone: fedgrid run ok.yaml"),
        (["run", "--seed", "3", "--seeds", "0..1"], "--seed 3 and --seeds 0..1 both give seeds"),
        (["run", "--seed", "-1"], "seed = -1: input should be greater than or equal to 0"),
        (["run", "--seed=0..3"], "several: --seeds 0..3"),
        (["run", "--seeds", "0", "1", "2"], "as in --seeds 0,1,2; see --help"),
        (["run", "quickstart", *"abcdefghijklm"], "`fedgrid run` takes one GRID and KEY=VALUE for keys; "),
        (["run", "quickstart", "--algorithm", "fedavg,", "ifca"], "commas between them, and no spaces"),
        (["run", "quickstart", "--track", "mlflow,"], "--track mlflow,: nothing stands on one side"),
        (["table", "one", "--score", "ari", "--score", "ami"], "--score: it is given 2 times"),
        (["run", "clients=4", "clients=5"], "clients: it is given 2 times"),
        (["run", "training.rounds="], "training.rounds=: no value; expected KEY=VALUE"),
        (["import", "one.txt", "--name", "one"], "name a bundle (FILE.zip), or the folder"),
        (["help"], "it is `fedgrid --help`"),
        (["version"], "it is `fedgrid --version`"),
        (["run", "--dataset", "[bold]x[/] :smile:"], "unknown dataset '[bold]x[/] :smile:'; "),
        (["run", "--dataset", "FashionMNIST"], "did you mean 'fmnist'?"),
        (["run", "--clients", "15,30"], "clients=15,30"),
        (["run", "quickstart", "--epochs", "5"], "--epochs; set it with training.local_epochs=VALUE"),
        (["run", "quickstart", "--gpus", "1"], "--gpus-per-actor SHARE"),
        (["run", "quickstart", "--resume"], "the same command continues"),
        (["run", "quickstart", "--output", "x"], "--output; --storage FOLDER"),
        (["run", "--config", "ok.yaml"], "fedgrid run FILE.yaml"),
        (["run", "quickstart", "--verbose"], "log.txt"),
        (["ls"], "`fedgrid status` lists grids"),
        (["run", "--seed", "1", "--clients-per-actor", "0"], "Invalid value for '--clients-per-actor'"),
        (
            ["run", "--seed", "1", "--gpus-per-actor", "1.5"],
            "--gpus-per-actor 1.5: expected 0, or 0.0001 to 1",
        ),
        (["run", "--seed", "1", "--gpus-per-actor", "auto"], "in place of auto leave it out"),
        ([*IN_PROCESS, "--clients-per-actor", "3"], "--in-process has no actors"),
        (["data", "mnist", "--from", "x"], "--from makes the file of femnist alone"),
        (["data", "folder:my-cat-images"], "my-cat-images; an image folder has train/"),
        (["run", "folder:my-own-cat-images"], "'folder:my-own-cat-images' is a data set, no preset"),
        (["data", "digits-15-rotated-balanced"], "did you mean 'rotated'?"),
        (["data", "digits", "seed=[1, 2]"], "one split at a time, not 2"),
        (["data", "--csv", "x.csv"], "need a data set, as in fedgrid data digits"),
        (
            ["data", "digits", "--figure", "x.bmp"],
            "--figure x.bmp: expected a file name that ends with .pdf or .png or .svg",
        ),
        (["data", "digits", "--figure", "none/x.svg"], "none/x.svg cannot be written: No such file"),
        (
            ["data", "digits", "--csv", "none/x.csv"],
            "none/x.csv cannot be written: No such file or directory",
        ),
        (["run", "split.draws=1"], "more split.draws"),
        (["run", "split.server_images=356"], "more than the 355 images of the server's test set"),
        (
            ["run", "split.tested_on=official", "split.reference_images=355"],
            "the official test set has 355 images, of which at least one must be left",
        ),
        (["ui"], "run something first, or name the folder with --storage"),
        (["run", "quickstart", "--cache-limit", "5XB"], "Invalid value for '--cache-limit': '5XB' "),
        (["run", "quickstart", "--no-cache", "--cache-limit", "5GB"], "--cache-limit limits what --no-cache"),
        (["cache", "paper", "--drop"], "--cache-limit"),
        (["run", "quickstart", "--per-run"], "fedgrid show GRID"),
        (["report", "quickstart", "--traffic", "training"], "Prigent's tables"),
        (["status", "paper"], "name that with --storage; `fedgrid run paper` starts one"),
        (["run", "paper", "--failed"], "no grid in "),
        (["status", "../paper"], "a grid named '../paper': expected letters"),
        (["submit", "paper"], "--cluster"),
        (["run", "quickstart", "--storage", "nowhere://runs"], "--storage nowhere://runs"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_options_are_refused_in_one_line(refused, arguments, says):
    refused(*arguments, says=says)


def test_file_of_a_like_name_and_files_of_a_folder_are_named(refused, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "mine.yaml").write_text("seed: 1")
    refused("run", "mine/mine.yml", says="no file mine/mine.yml; did you mean mine/mine.yaml?")
    refused("run", "mine", says="mine is a folder; name a YAML file: mine/mine.yaml")


def test_storage_that_cannot_be_created_is_refused():
    """Not even root can create a folder in /proc."""
    result = fedgrid(*IN_PROCESS, "--storage", "/proc/runs")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert result.err.startswith("fedgrid: --storage /proc/runs cannot be written to: ")


@pytest.mark.parametrize("uri", ["bogus", "file:///tmp/mlruns", "http://[::1", "sqlite://"])
def test_a_malformed_tracking_address(refused, uri):
    refused(
        *IN_PROCESS, says=f"MLFLOW_TRACKING_URI is '{uri}'", MLFLOW_TRACKING_URI=uri, FEDGRID_TRACK="mlflow"
    )


@pytest.mark.ray
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--cpus-per-actor", "100"], "--cpus-per-actor 100: expected more than 0, at most 3.9"),
        (["--gpus-per-actor", "0.5"], "--gpus-per-actor 0.5, but the cluster has no GPU; leave it out"),
        (["--cpus-per-actor", "1", "--clients-per-actor", "1"], "15 client actors with 1 CPU"),
    ],
)
def test_resources_beyond_the_cluster_are_refused(ray_session, tmp_path, arguments, says):
    """The cluster has four CPUs, of which the server takes a tenth."""
    result = fedgrid("run", "--seed", 1, *arguments, "--storage", tmp_path / "runs", "--json")
    assert (result.code, result.out) == (2, "")
    assert says in result.err
    assert not (tmp_path / "runs").exists()


class Interrupted(BaseModel):
    """Ctrl-C comes while pydantic calls code of ours."""

    @model_serializer(mode="wrap")
    def dump(self, handler):
        raise KeyboardInterrupt


def test_interruption_that_pydantic_makes_an_error_of_is_still_one(monkeypatch):
    monkeypatch.setattr(main, "app", lambda **_: Interrupted().model_dump())
    done = fedgrid("run")
    assert (done.code, done.err) == (130, "fedgrid: interrupted; the same command continues\n")


def test_mistake_of_ours_is_no_interruption(monkeypatch):
    monkeypatch.setattr(main, "app", lambda **_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fedgrid("run")


def test_commas_part_values_and_a_number_for_seeds_is_said_to_be_one_seed(tmp_path):
    given = ("--algorithm", "fedavg,ocfl-kmeans", "--split", "rotated,iid", "--seeds", "3")
    given += ("--in-process", "--dry-run", "--json", "--storage", str(tmp_path))
    result = fedgrid("run", "quickstart", *given)
    assert "1 seed: 3 (for 3 seeds: --seeds 0..2)" in result.err
    assert [run["run"] for run in json.loads(result.out)["runs"]] == [
        f"digits-15-{split}-{algorithm}-s3"
        for split in ("rotated", "iid")
        for algorithm in ("fedavg", "ocfl_kmeans")
    ]


def test_a_dry_run_says_which_values_of_an_axis_set_takes_the_place_of(tmp_path):
    given = ("run", "quickstart", "algorithm=fedavg", "--in-process", "--dry-run")
    result = fedgrid(*given, "--storage", tmp_path)
    assert (result.code, "7 values of algorithm: fedavg, sattler" in result.err) == (0, True)
