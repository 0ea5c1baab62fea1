"""The data sets that have a name, with their defaults.

The pool of a data set is its official training images (MedMNIST: with the validation images). The default
training settings are those of the OCFL papers (Table 3), except for digits, the user's own images and
MedMNIST: the papers' learning rates for it hardly move the weights, so they are in the `paper` presets only.
The default there is plain Adam at 1e-3, as in MedMNIST's released benchmark code.

CIFAR-100, SVHN and FEMNIST are not in those papers: their model and training are of FLIS and of Prigent et
al., which use them.
"""

from collections.abc import Iterator
from functools import partial
from math import ceil

from fedgrid.engine.federation.data import npz_files, readers
from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.data.made_by_code import MADE_BY_CODE
from fedgrid.engine.federation.data.published import facts, papers
from fedgrid.engine.federation.inputs import Inputs, image_inputs
from fedgrid.engine.federation.training.settings import Training

DIGITS_TRAINING = Training(rounds=15, batch_size=32, optimizer="sgd", learning_rate=0.1)
# This and CIFAR-10's are from Table 3 of the OCFL papers.
MNIST_TRAINING = Training(rounds=50, batch_size=32, optimizer="sgd", learning_rate=1e-2)
CIFAR10_TRAINING = Training(rounds=80, batch_size=64, optimizer="sgd", learning_rate=1e-2)
# As in FLIS (Morafah et al. 2022), for CIFAR-100 and SVHN.
FLIS_TRAINING = Training(
    rounds=200, local_epochs=10, batch_size=10, optimizer="sgd", learning_rate=1e-2, momentum=0.5
)
NUMBERS_TRAINING = Training(rounds=30, batch_size=32, optimizer="sgd", learning_rate=0.1, normalise="dataset")
TEXT_TRAINING = Training(rounds=30, batch_size=32, optimizer="adam", learning_rate=1e-2)
# As in MedMNIST's released benchmark code; the OCFL papers' learning rates hardly move the weights.
MEDMNIST_TRAINING = Training(rounds=75, batch_size=128, optimizer="adam", learning_rate=1e-3)
# As in Prigent et al.
FEMNIST_TRAINING = Training(rounds=500, batch_size=32, optimizer="adam", learning_rate=1e-3)


def find_defaults(inputs: Inputs) -> tuple[str, Training]:
    """Find the default model and training of the user's own data.

    There is no default model (an empty text) for numbers that look like images.
    """
    match inputs.kind, inputs.shape:
        case "pixels", _:
            return "tinyvgg", MNIST_TRAINING
        case "tokens", _:
            return "lstm", TEXT_TRAINING
        case _, (_,):
            return "mlp", NUMBERS_TRAINING
        # Few channels, long series. A square array of floats is more likely an image: it gets no model that
        # would be wrong.
        case _, (channels, length) if channels != length:
            return "cnn-1d", NUMBERS_TRAINING
    return "", NUMBERS_TRAINING


def _build_emnist(split: str) -> Dataset:
    """Build the entry of a split of EMNIST."""
    class_names, pool_size, test_size = facts.EMNIST[split]
    return Dataset(
        f"emnist-{split}",
        f"EMNIST {split}",
        "torchvision, www.nist.gov/itl/products-and-services/emnist-dataset; one download has all its splits",
        num_classes=len(class_names),
        inputs=image_inputs(1, 28, 28),
        pool_size=pool_size,
        test_size=test_size,
        download_mb=562,
        model="tinyvgg",
        training=MNIST_TRAINING,
        read=partial(readers.read_emnist, split),
        location="EMNIST/raw",
        class_names=tuple(class_names),
        files=tuple(f"EMNIST/raw/{name}" for name in readers.list_emnist_files(split)),
        fetch=partial(readers.fetch_torchvision, "EMNIST", split=split),
        bibtex=papers.EMNIST,
    )


def _build_medmnist(side: int) -> Iterator[Dataset]:
    """Build the entries of MedMNIST's sets of one class an image, with images of `side` pixels."""
    is_small = side == facts.SIDES[0]
    for title, num_classes, channels, pool_size, test_size, licence in facts.MEDMNIST:
        name, size = title.lower(), "" if is_small else f"_{side}"
        pixel_megabytes = ceil((pool_size + test_size) * channels * side**2 / 10**6)
        yield Dataset(
            name if is_small else f"{name}-{side}",
            title if is_small else f"{title} {side}",
            f"medmnist, zenodo.org/records/10519652, {licence}; training and validation images are the pool",
            num_classes=num_classes,
            inputs=image_inputs(channels, side, side),
            pool_size=pool_size,
            test_size=test_size,
            download_mb=facts.DOWNLOADS.get(f"{name}{size}", pixel_megabytes),
            model="resnet34" if is_small else "resnet18",
            training=MEDMNIST_TRAINING,
            read=npz_files.read_images,
            location=f"{name}{size}.npz",
            files=(f"{name}{size}.npz",),
            fetch=partial(readers.fetch_medmnist, name, size),
            is_listed=is_small,
            bibtex="\n\n".join((papers.MEDMNIST, *papers.MEDMNIST_SOURCES.get(name, ()))),
            licence=licence,
        )


DATASETS: dict[str, Dataset] = {
    "digits": Dataset(
        "digits",
        "digits",
        "scikit-learn's load_digits, comes with it; every fifth image of a class is test",
        num_classes=10,
        inputs=image_inputs(1, 8, 8),
        pool_size=1442,
        test_size=355,
        model="digitnet",
        training=DIGITS_TRAINING,
        read=readers.read_digits,
        bibtex=papers.DIGITS,
    ),
    "mnist": Dataset(
        "mnist",
        "MNIST",
        "torchvision, yann.lecun.com/exdb/mnist",
        num_classes=10,
        inputs=image_inputs(1, 28, 28),
        pool_size=60000,
        test_size=10_000,
        download_mb=12,
        model="tinyvgg",
        training=MNIST_TRAINING,
        read=readers.read_mnist,
        location="MNIST/raw",
        files=tuple(f"MNIST/raw/{name}" for name in readers.MNIST_FILES),
        fetch=partial(readers.fetch_torchvision, "MNIST"),
        bibtex=papers.MNIST,
    ),
    "fmnist": Dataset(
        "fmnist",
        "Fashion-MNIST",
        "torchvision, github.com/zalandoresearch/fashion-mnist",
        num_classes=10,
        inputs=image_inputs(1, 28, 28),
        pool_size=60000,
        test_size=10_000,
        download_mb=31,
        model="tinyvgg",
        training=MNIST_TRAINING,
        read=readers.read_mnist,
        location="FashionMNIST/raw",
        files=tuple(f"FashionMNIST/raw/{name}" for name in readers.MNIST_FILES),
        fetch=partial(readers.fetch_torchvision, "FashionMNIST"),
        bibtex=papers.FASHION_MNIST,
        licence="MIT",
    ),
    "cifar10": Dataset(
        "cifar10",
        "CIFAR-10",
        "torchvision, www.cs.toronto.edu/~kriz/cifar.html",
        num_classes=10,
        inputs=image_inputs(3, 32, 32),
        pool_size=50000,
        test_size=10_000,
        download_mb=171,
        model="resnet34",
        training=CIFAR10_TRAINING,
        read=partial(readers.read_cifar, "CIFAR10"),
        files=tuple(f"cifar-10-batches-py/{name}" for name in readers.CIFAR10_FILES),
        fetch=partial(readers.fetch_torchvision, "CIFAR10"),
        bibtex=papers.CIFAR,
    ),
    **{one.name: one for one in _build_medmnist(28)},
    "cifar100": Dataset(
        "cifar100",
        "CIFAR-100",
        "torchvision, www.cs.toronto.edu/~kriz/cifar.html; the fine classes",
        num_classes=100,
        inputs=image_inputs(3, 32, 32),
        pool_size=50000,
        test_size=10_000,
        download_mb=169,
        model="resnet9",
        training=FLIS_TRAINING.model_copy(update={"rounds": 150}),
        read=partial(readers.read_cifar, "CIFAR100"),
        files=tuple(f"cifar-100-python/{name}" for name in readers.CIFAR100_FILES),
        fetch=partial(readers.fetch_torchvision, "CIFAR100"),
        bibtex=papers.CIFAR,
    ),
    "svhn": Dataset(
        "svhn",
        "SVHN",
        "torchvision, ufldl.stanford.edu/housenumbers; without its extra images",
        num_classes=10,
        inputs=image_inputs(3, 32, 32),
        pool_size=73257,
        test_size=26_032,
        download_mb=246,
        model="lenet5",
        training=FLIS_TRAINING,
        read=readers.read_svhn,
        location="SVHN",
        files=tuple(f"SVHN/{name}" for name in readers.SVHN_FILES),
        fetch=readers.fetch_svhn,
        bibtex=papers.SVHN,
        licence="for non-commercial use only",
    ),
    "femnist": Dataset(
        "femnist",
        "FEMNIST",
        "LEAF, leaf.cmu.edu; made by `fedgrid data femnist --from`; every tenth image of a writer is test",
        num_classes=62,
        inputs=image_inputs(1, 28, 28),
        pool_size=726_000,
        test_size=79_000,
        model="lenet5-tanh",
        training=FEMNIST_TRAINING,
        read=npz_files.read_images,
        location="femnist.npz",
        num_groups=3550,
        files=("femnist.npz",),
        sizes_vary=True,
        made_by="fedgrid data femnist --from SOURCE",
        bibtex=f"{papers.LEAF}\n\n{papers.EMNIST}",
    ),
    **{one.name: one for one in map(_build_emnist, facts.EMNIST)},
    **{one.name: one for one in MADE_BY_CODE},
    **{one.name: one for side in facts.SIDES[1:] for one in _build_medmnist(side)},
}
"""Data sets by name. A new one is an entry here and, for a new format, a reader."""
