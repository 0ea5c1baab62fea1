"""Plugins in one process: what is loaded and refused, which runs have their digests, and what follows."""

import pickle
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from fedgrid.algorithms.clustering.clusterers import CLUSTERERS
from fedgrid.algorithms.registry import ALGORITHMS, create_algorithm
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.models.registry import MODELS
from fedgrid.engine.federation.plugin_calls import plugin_call_context
from fedgrid.engine.federation.seeds import read_global_states
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.active import load_installed
from fedgrid.engine.runtime.plugins.plugin import PluginSource, load_plugin, read_source
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm
from fedgrid.engine.runtime.round_cache.key import digest_setup
from fedgrid.engine.runtime.run.prepare import prepare_setup
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.run_events import run_to_end
from fedgrid.grids.presets.load import load_grid
from tests.helpers.plugin_files import (
    AGGREGATOR,
    ALGORITHM,
    CLUSTERER,
    DATASET,
    LOCAL,
    MODEL,
    SPLIT,
    change_digest,
)
from tests.helpers.small_cases import build_updates

NOWHERE = Path("unused")
BUILT_IN = {name: dict(registry) for name, registry in (("a", ALGORITHMS), ("c", CLUSTERERS), ("m", MODELS))}


NUMBER = ALGORITHM.replace("import AlgorithmEntry", "import AlgorithmEntry, OwnNumber").replace(
    "FedOptSettings())", 'FedOptSettings(), numbers=(OwnNumber("gini", "Of norms."),))'
)
LOCAL_NUMBER = LOCAL.replace("import PLAIN, ", "import PLAIN, OwnNumber, ").replace(
    "    def rule", "    numbers = (OwnNumber('Ari', 'Of rounds.'),)\n\n    def rule"
)
DOC = "    '''Plain averaging.'''"


@pytest.fixture(autouse=True)
def no_plugins_after():
    yield
    active.use_plugins()


@pytest.fixture
def write(tmp_path):
    def plugin(text, name="mine.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return plugin


def digest(path):
    return sha256(path.read_bytes()).hexdigest()


def config(**values):
    given = {"clients": 3, "training": {"rounds": 2}, "algorithm": "fedavg", **values}
    return complete_config(given, NOWHERE)


class TestLoading:
    def test_plugin_adds_to_the_registries_and_use_without_it_removes_that(self, write):
        active.use_plugins([write(ALGORITHM), write(CLUSTERER, "two.py"), write(MODEL, "three.py")])
        assert ALGORITHMS["own"].title == "OWN"
        assert create_algorithm("ocfl-halves", {"clusterer": {"first": 1}}).settings.clusterer.first == 1
        assert MODELS["own-model"].description == "one linear layer"
        active.use_plugins()
        assert {"a": ALGORITHMS, "c": CLUSTERERS, "m": MODELS} == BUILT_IN

    def test_same_bytes_under_two_names_are_one_plugin(self, write):
        active.use_plugins([write(ALGORITHM), write(ALGORITHM, "copy.py")])
        assert "own" in ALGORITHMS

    def test_constant_that_a_file_draws_is_the_same_in_each_process_and_moves_no_generator(self, write):
        numbers = "random.random(), np.random.rand(), torch.rand(1).item()"
        text = f"import random\nimport numpy as np\nimport torch\nNUMBERS = {numbers}\n{ALGORITHM}"
        source, states, drawn = read_source(write(text)), read_global_states(), []
        for _ in range(2):
            load_plugin(source)
            drawn.append(sys.modules.pop(f"fedgrid_plugin_{source.digest[:16]}").NUMBERS)
        assert drawn[0] == drawn[1]
        assert read_global_states() == states

    def test_class_of_a_plugin_is_pickled_by_its_digest(self, write):
        path = write(CLUSTERER)
        active.use_plugins([path])
        settings = ALGORITHMS["ocfl-halves"].settings
        assert type(settings.clusterer).__module__ == f"fedgrid_plugin_{digest(path)[:16]}"
        assert pickle.loads(pickle.dumps(settings)) == settings

    @pytest.mark.parametrize(
        ("text", "named"),
        [
            ("import nothing_like_this\n", ("mine.py, line 1", "ModuleNotFoundError", "nothing_like_this")),
            ("x = 1\n\ndef f(:\n", ("mine.py, line 3", "SyntaxError")),
            ("x = 1\n", ("mine.py", "ALGORITHMS", "CLUSTERERS", "MODELS")),
            ("ALGORITHMS = {}\n", ("mine.py", "ALGORITHMS", "dict", "list")),
            ("ALGORITHMS = ['fedavg']\n", ("mine.py", "ALGORITHMS", "'fedavg'", "AlgorithmEntry")),
            ("CLUSTERERS = [int]\n", ("mine.py", "CLUSTERERS", "int", "Clusterer")),
            ("DATASETS = [int]\n", ("mine.py", "DATASETS", "int", "OwnDataset")),
            ("SPLITS = [int]\n", ("mine.py", "SPLITS", "int", "OwnSplit")),
            (SPLIT.replace("def deal", "def dealt"), ("mine.py", "SPLITS", "Dealt", "with deal")),
            ("LOCAL_METHODS = [int]\n", ("mine.py", "LOCAL_METHODS", "int", "LocalMethod")),
            ("AGGREGATORS = [int]\n", ("mine.py", "AGGREGATORS", "int", "Aggregator")),
            (ALGORITHM.replace('"own"', '"arena"'), ("algorithm 'arena'", "fedgrid", "mine.py")),
            (NUMBER.replace("gini", "ari x"), ("mine.py", "'own'", "number 'ari x'", "digits")),
            (NUMBER.replace("gini", "temperature"), ("mine.py", "number 'temperature'", "column")),
            (LOCAL_NUMBER, ("mine.py", "'own-local'", "number 'Ari'", "digits")),
            (MODEL.replace(", build=build", ""), ("mine.py", "MODELS", "own-model", "module or build")),
            (MODEL.replace("build=build", "build=3"), ("mine.py", "MODELS", "own-model", "build")),
            (ALGORITHM.replace('"own"', '"My Own"'), ("mine.py", "algorithm", "'My Own'", "letters")),
            (ALGORITHM.replace('"OWN"', r'"a\nb"'), ("mine.py", "'own'", r"'a\nb'", "60")),
            (ALGORITHM.replace('"OWN"', '"x" * 61'), ("mine.py", "'own'", "x" * 61, "60")),
            (ALGORITHM.replace('"OWN"', '"bnc"'), ("mine.py", "'own'", "'bnc'", "'fedavg'")),
            (ALGORITHM.replace("(FedOpt)", ""), ("mine.py", "'own'", "class Own", "class Mine(FedOpt)")),
            (
                ALGORITHM.replace("FedOptSettings())", "FedOptSettings)"),
                ("mine.py", "settings=<class"),
            ),
            (
                ALGORITHM.replace(DOC, "    def step(self, state, updates):\n        return state"),
                (
                    "mine.py, line",
                    "Own.step(self, state, updates)",
                    "(self, state, round_index, updates, rng)",
                ),
            ),
            (
                ALGORITHM.replace(DOC, "    def __init__(self, settings):\n        self.count = 0"),
                ("mine.py, line", "'own'", "Own.count", "state.keep(count=array)"),
            ),
            (
                f"def draw():\n    numpy.random.default_rng()\n{ALGORITHM}",
                ("mine.py, line 2", "default_rng()", "the rng that", "torch.rand", "np.random.rand"),
            ),
            (f"import random\nRNG = random.Random()\n{ALGORITHM}", ("mine.py, line 2", "random.Random()")),
            (f"import helper\n{ALGORITHM}", ("mine.py, line 1", "helper", "one file")),
            (f"from .helper import x\n{ALGORITHM}", ("mine.py, line 1", ".helper", "one file")),
        ],
    )
    def test_refused_file_is_named_with_what_is_wrong(self, write, text, named):
        write("x = 1\n", "helper.py")
        with pytest.raises(ConfigError) as caught:
            active.use_plugins([write(text)])
        assert [part for part in named if part not in str(caught.value)] == []

    @pytest.mark.parametrize(
        ("size", "named"),
        [
            ("width, 7", ("an output of shape (3, 7) of 3 images", "(3, 10)")),
            ("width + 1, num_classes", ("images of 1x8x8",)),
        ],
    )
    def test_model_that_does_not_fit_the_data_is_refused_with_its_line(self, write, size, named):
        active.use_plugins([write(MODEL.replace("width, num_classes))", f"{size}))"))])
        with pytest.raises(ConfigError) as caught:
            config(model="own-model")
        for part in ("mine.py, line", "model own-model: ", *named):
            assert part in str(caught.value)

    def test_aggregator_of_a_plugin_is_taken_under_any_algorithm_and_is_part_of_the_runs_id(self, write):
        """Krum's scores are 4, 4, 4, 4 and 294, so that it takes the first."""
        path = write(AGGREGATOR)
        active.use_plugins([path])
        run = config(algorithm={"name": "sattler", "aggregate": {"name": "nearest", "attackers": 2}})
        assert run.plugin_digests == (digest(path),)
        assert run.algorithm.aggregate == {"name": "nearest", "attackers": 2}
        assert config(algorithm={"name": "sattler", "aggregate": "median"}).plugin_digests == ()
        aggregate = create_algorithm("fedavg", {"aggregate": "nearest"}).settings.aggregate
        five = build_updates(dict(enumerate([(1, 0), (2, 1), (3, 0), (2, -1), (10, 10)])))
        assert [vector.tolist() for vector in aggregate.combine_groups(five, [range(5)])] == [[1, 0]]
        active.use_plugins()
        with pytest.raises(ConfigError, match="unknown aggregator 'nearest'"):
            config(algorithm={"name": "fedavg", "aggregate": "nearest"})

    def test_draws_of_a_plugins_clusterer_in_an_algorithm_of_the_package_are_its_own_too(self, write):
        active.use_plugins([write(f"{CLUSTERER}# Loaded under this name only.")])
        drawn = []
        for name in ("ocfl-halves", "ocfl-halves", "ocfl-kmeans"):
            with plugin_call_context(create_algorithm(name), "step", np.random.default_rng(0)):
                drawn.append(np.random.rand())  # noqa: NPY002
        assert drawn[0] == drawn[1] != drawn[2]

    def test_missing_file_is_named(self):
        with pytest.raises(ConfigError, match=r"nowhere\.py"):
            active.use_plugins(["nowhere.py"])

    @pytest.mark.parametrize(
        ("text", "taken", "named"),
        [
            (ALGORITHM, '"own"', "algorithm 'fedavg'"),
            (MODEL, '"own-model"', "model 'tinyvgg'"),
            (CLUSTERER, '"halves"', "clusterer 'kmeans'"),
            (SPLIT, '"own-split"', "split 'iid'"),
            (DATASET, '"own-data"', "dataset 'digits'"),
            (LOCAL, '"own-local"', "local training 'fedprox'"),
            (AGGREGATOR, '"nearest"', "aggregator 'krum'"),
        ],
    )
    def test_name_of_the_package_is_refused(self, write, text, taken, named):
        name = named.split("'")[1]
        with pytest.raises(ConfigError) as caught:
            active.use_plugins([write(text.replace(taken, f'"{name}"'))])
        for part in (named, "mine.py", "fedgrid"):
            assert part in str(caught.value)

    def test_name_of_another_plugin_is_refused_and_both_are_named(self, write):
        with pytest.raises(ConfigError) as caught:
            active.use_plugins([write(ALGORITHM, "one.py"), write(change_digest(ALGORITHM), "two.py")])
        for part in ("algorithm 'own'", "one.py", "two.py"):
            assert part in str(caught.value)


class TestRuns:
    def test_runs_with_nothing_from_a_plugin_keep_their_ids(self, write):
        before = [run.run_id for run in load_grid("quickstart", {}, [], NOWHERE).runs]
        active.use_plugins([write(ALGORITHM), write(CLUSTERER, "two.py"), write(MODEL, "three.py")])
        assert [run.run_id for run in load_grid("quickstart", {}, [], NOWHERE).runs] == before
        assert before[0] == "acce5a83554f"

    def test_ids_of_paper_digits_are_what_they_were(self):
        ids = " ".join(run.run_id for run in load_grid("paper-digits", {}, [], NOWHERE).runs)
        assert sha256(ids.encode()).hexdigest()[:16] == "a864c7867ce20927"

    def test_run_names_the_plugins_that_its_parts_come_from(self, write):
        own, halves, model = paths = [
            write(ALGORITHM),
            write(CLUSTERER, "two.py"),
            write(MODEL, "three.py"),
        ]
        active.use_plugins(paths)
        assert config().plugin_digests == ()
        assert config(algorithm="own").plugin_digests == (digest(own),)
        assert config(algorithm="ocfl-halves").plugin_digests == (digest(halves),)
        assert config(model="own-model").plugin_digests == (digest(model),)
        split, local, data = others = [
            write(SPLIT, "split.py"),
            write(LOCAL, "local.py"),
            write(DATASET, "data.py"),
        ]
        active.use_plugins([*paths, *others])
        assert config(split="own-split").plugin_digests == (digest(split),)
        assert config(algorithm={"name": "fedavg", "local": "own-local"}).plugin_digests == (digest(local),)
        assert config(dataset="own-data").plugin_digests == (digest(data),)
        public = {"name": "embeddings", "encoder": {"public": "own-data"}}
        assert config(algorithm=public).plugin_digests == (digest(data),)
        both = config(algorithm="own", model="own-model")
        assert both.plugin_digests == tuple(sorted((digest(own), digest(model))))
        assert RunConfig.model_validate_json(both.canonical_json()) == both

    def test_clusterer_of_one_plugin_in_the_algorithm_of_another_counts(self, write):
        entry = CLUSTERER[CLUSTERER.index("ALGORITHMS") :]
        clusterer = write(CLUSTERER.replace(entry, ""), "clusterer.py")
        using = write(
            "from fedgrid import AlgorithmEntry, Ocfl, OcflSettings\n"
            "settings = OcflSettings(clusterer={'name': 'halves'})\n"
            "ALGORITHMS = [AlgorithmEntry('using', 'U', 'halves', 'ours', Ocfl, settings)]\n",
            "using.py",
        )
        active.use_plugins([clusterer, using])
        assert set(config(algorithm="using").plugin_digests) == {digest(clusterer), digest(using)}

    def test_changed_source_is_another_run_with_rounds_of_its_own(self, write):
        active.use_plugins([write(MODEL)])
        before = config(model="own-model")
        active.use_plugins([write(change_digest(MODEL))])
        after = config(model="own-model")
        assert before.run_id != after.run_id
        assert before.shared_prefix != after.shared_prefix
        keys = {digest_setup(prepare_setup(run, NOWHERE)[0], "cpu") for run in (before, after)}
        assert len(keys) == 2

    def test_run_gets_the_version_that_it_names_whatever_was_loaded_last(self, write):
        active.use_plugins([write(ALGORITHM)])
        old = config(algorithm="own")
        active.use_plugins([write(ALGORITHM.replace("FedOpt)", "FedOpt, metaclass=type(FedOpt))"))])
        new = config(algorithm="own")
        assert type(build_algorithm(old)).__module__ != type(build_algorithm(new)).__module__
        assert type(build_algorithm(old)).__module__.endswith(old.plugin_digests[0][:16])

    def test_unknown_digest_is_refused_with_what_to_do(self):
        run = config().model_copy(update={"plugin_digests": ("0" * 64,)})
        with pytest.raises(ConfigError, match=r"000000000000.*--plugin"):
            build_algorithm(run)

    def test_digests_cannot_be_given(self):
        with pytest.raises(ConfigError, match="plugin_digests"):
            config(plugin_digests=["0" * 64])

    def test_run_with_a_model_of_its_own_resumes_with_either_version(self, write, tmp_path):
        """The layout is kept from run to run, and differs between the versions."""
        wider = MODEL.replace(
            "nn.Linear(channels * height * width, num_classes)",
            "nn.Linear(channels * height * width, 7), nn.Linear(7, num_classes)",
        )
        session, storage = Session(InProcessPool(), NOWHERE), Storage(tmp_path / "runs")
        sizes = []
        for text in (MODEL, wider, MODEL):
            active.use_plugins([write(text)])
            run = config(model="own-model")
            for _ in run_to_end(session, run, storage, lambda: False):
                pass
            sizes.append(np.size(session._run.run_state.state.models[0]))
        assert sizes == [64 * 10 + 10, 64 * 7 + 7 + 7 * 10 + 10, 64 * 10 + 10]


PACKAGE = {
    "own_package/__init__.py": "",
    "own_package/algorithms.py": ALGORITHM,
    "own_package-1.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: own-package\nVersion: 1.2\n",
    "own_package-1.2.dist-info/entry_points.txt": (
        "[fedgrid.algorithms]\nown = own_package.algorithms:ALGORITHMS\n"
    ),
}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package of these files, as if by pip."""
    monkeypatch.syspath_prepend(tmp_path / "site")

    def install(files):
        for name, text in files.items():
            path = tmp_path / "site" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        _forget_package()

    yield install
    _forget_package()


def _forget_package():
    for name in [name for name in sys.modules if name.startswith("own_package")]:
        del sys.modules[name]
    load_installed.cache_clear()


@pytest.mark.filterwarnings("ignore")
class TestInstalled:
    def test_entry_points_are_in_use_without_being_named(self, install):
        install(PACKAGE)
        active.use_plugins()
        assert ALGORITHMS["own"].title == "OWN"
        [source] = active.list_sources(config(algorithm="own").plugin_digests)
        assert (source.name, source.code) == ("own-package 1.2", None)

    @pytest.mark.parametrize("changed", ["own_package/__init__.py", "own_package-1.2.dist-info/METADATA"])
    def test_changed_module_or_version_is_another_run(self, install, changed):
        ids = set()
        for files in (PACKAGE, {changed: PACKAGE[changed].replace("1.2", "1.3") + "\n"}):
            install(files)
            active.use_plugins()
            ids.add(config(algorithm="own").run_id)
        assert len(ids) == 2

    def test_package_and_file_with_one_name_are_refused_and_both_named(self, install, write):
        install(PACKAGE)
        with pytest.raises(ConfigError) as caught:
            active.use_plugins([write(ALGORITHM)])
        assert "own-package 1.2" in str(caught.value)
        assert "mine.py" in str(caught.value)

    def test_package_that_cannot_be_imported_is_named(self, install):
        install({**PACKAGE, "own_package/algorithms.py": "import nothing_like_this\n"})
        with pytest.raises(ConfigError, match=r"own-package 1\.2.*nothing_like_this"):
            active.use_plugins()
        load_installed.cache_clear()
        install(PACKAGE)

    def test_machine_without_the_package_says_so(self):
        active.register_sources([PluginSource("own-package 1.2", "1" * 64, None)])
        with pytest.raises(ConfigError, match=r"own-package 1\.2"):
            active.activate_plugins(["1" * 64])


def test_source_is_read_and_not_executed(write):
    path = write("raise SystemExit\n")
    assert read_source(path) == PluginSource(str(path), digest(path), b"raise SystemExit\n")
