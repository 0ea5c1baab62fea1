"""The data sets that have a name, with their defaults.

The pool of a data set is its official training images (MedMNIST: with the validation images). The default
training settings are those of the OCFL papers (Table 3), except for digits, the user's own images and
MedMNIST: the papers' learning rates for it hardly move the weights, so they are in the `paper` presets only.
The default there is plain Adam at 1e-3, as in MedMNIST's released benchmark code.

CIFAR-100, SVHN and FEMNIST are not in those papers: their model and training are of FLIS and of Prigent et
al., who use them.

Sources: Y. LeCun et al., MNIST; H. Xiao et al., Fashion-MNIST (2017); A. Krizhevsky, CIFAR-10 (2009);
J. Yang et al., MedMNIST v2 (2023), 28x28; Y. Netzer et al., SVHN (2011); S. Caldas et al., LEAF (2018);
E. Alpaydin and C. Kaynak, digits (1998), as in scikit-learn.
"""

from functools import partial

from fedgrid.engine.data import downloads, npz_files, readers
from fedgrid.engine.data.dataset import Dataset
from fedgrid.engine.training.settings import Training

DIGITS_TRAINING = Training(rounds=15, batch_size=32, optimizer="sgd", learning_rate=0.1)
MNIST_TRAINING = Training(rounds=50, batch_size=32, optimizer="sgd", learning_rate=1e-2)
CIFAR10_TRAINING = Training(rounds=80, batch_size=64, optimizer="sgd", learning_rate=1e-2)
MEDMNIST_TRAINING = Training(rounds=75, batch_size=128, optimizer="adam", learning_rate=1e-3)
FLIS_TRAINING = Training(
    rounds=200, local_epochs=10, batch_size=10, optimizer="sgd", learning_rate=1e-2, momentum=0.5
)
FEMNIST_TRAINING = Training(rounds=500, batch_size=32, optimizer="adam", learning_rate=1e-3)

DATASETS: dict[str, Dataset] = {
    "digits": Dataset(
        "digits",
        "digits",
        "scikit-learn's load_digits, comes with it; every fifth image of a class is test",
        num_classes=10,
        shape=(1, 8, 8),
        pool_size=1442,
        download_mb=0,
        model="digitnet",
        training=DIGITS_TRAINING,
        read=readers.digits,
    ),
    "mnist": Dataset(
        "mnist",
        "MNIST",
        "torchvision, yann.lecun.com/exdb/mnist",
        num_classes=10,
        shape=(1, 28, 28),
        pool_size=60000,
        download_mb=12,
        model="tinyvgg",
        training=MNIST_TRAINING,
        read=readers.mnist,
        location="MNIST/raw",
        files=tuple(f"MNIST/raw/{name}" for name in readers.MNIST_FILES),
        fetch=partial(downloads.torchvision, "MNIST"),
    ),
    "fmnist": Dataset(
        "fmnist",
        "Fashion-MNIST",
        "torchvision, github.com/zalandoresearch/fashion-mnist",
        num_classes=10,
        shape=(1, 28, 28),
        pool_size=60000,
        download_mb=31,
        model="tinyvgg",
        training=MNIST_TRAINING,
        read=readers.mnist,
        location="FashionMNIST/raw",
        files=tuple(f"FashionMNIST/raw/{name}" for name in readers.MNIST_FILES),
        fetch=partial(downloads.torchvision, "FashionMNIST"),
    ),
    "cifar10": Dataset(
        "cifar10",
        "CIFAR-10",
        "torchvision, www.cs.toronto.edu/~kriz/cifar.html",
        num_classes=10,
        shape=(3, 32, 32),
        pool_size=50000,
        download_mb=171,
        model="resnet34",
        training=CIFAR10_TRAINING,
        read=partial(readers.cifar, "CIFAR10"),
        files=tuple(f"cifar-10-batches-py/{name}" for name in readers.CIFAR10_FILES),
        fetch=partial(downloads.torchvision, "CIFAR10"),
    ),
    "pathmnist": Dataset(
        "pathmnist",
        "PathMNIST",
        "medmnist, zenodo.org/records/10519652; training and validation images are the pool",
        num_classes=9,
        shape=(3, 28, 28),
        pool_size=100000,
        download_mb=206,
        model="resnet34",
        training=MEDMNIST_TRAINING,
        read=npz_files.read_images,
        location="pathmnist.npz",
        files=("pathmnist.npz",),
        fetch=partial(downloads.medmnist, "pathmnist"),
    ),
    "bloodmnist": Dataset(
        "bloodmnist",
        "BloodMNIST",
        "medmnist, zenodo.org/records/10519652; training and validation images are the pool",
        num_classes=8,
        shape=(3, 28, 28),
        pool_size=13671,
        download_mb=36,
        model="resnet34",
        training=MEDMNIST_TRAINING,
        read=npz_files.read_images,
        location="bloodmnist.npz",
        files=("bloodmnist.npz",),
        fetch=partial(downloads.medmnist, "bloodmnist"),
    ),
    "cifar100": Dataset(
        "cifar100",
        "CIFAR-100",
        "torchvision, www.cs.toronto.edu/~kriz/cifar.html; the fine classes",
        num_classes=100,
        shape=(3, 32, 32),
        pool_size=50000,
        download_mb=169,
        model="resnet9",
        training=FLIS_TRAINING.model_copy(update={"rounds": 150}),
        read=partial(readers.cifar, "CIFAR100"),
        files=tuple(f"cifar-100-python/{name}" for name in readers.CIFAR100_FILES),
        fetch=partial(downloads.torchvision, "CIFAR100"),
    ),
    "svhn": Dataset(
        "svhn",
        "SVHN",
        "torchvision, ufldl.stanford.edu/housenumbers; without its extra images",
        num_classes=10,
        shape=(3, 32, 32),
        pool_size=73257,
        download_mb=246,
        model="lenet5",
        training=FLIS_TRAINING,
        read=readers.svhn,
        location="SVHN",
        files=tuple(f"SVHN/{name}" for name in readers.SVHN_FILES),
        fetch=downloads.svhn,
    ),
    "femnist": Dataset(
        "femnist",
        "FEMNIST",
        "LEAF, leaf.cmu.edu; made by `fedgrid convert femnist`; every tenth image of a writer is test",
        num_classes=62,
        shape=(1, 28, 28),
        pool_size=726_000,
        download_mb=0,
        model="lenet5-tanh",
        training=FEMNIST_TRAINING,
        read=npz_files.read_images,
        location="femnist.npz",
        num_groups=3550,
        files=("femnist.npz",),
        facts=npz_files.facts,
        made_by="fedgrid convert femnist SOURCE",
    ),
}
"""Data sets by name. A new one is an entry here and, for a new format, a reader."""
