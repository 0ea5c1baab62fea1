"""The data sets that have a name, with their defaults.

The pool of a data set is its official training images (MedMNIST: with the validation images). The default
training settings are those of the OCFL papers (Table 3), except for digits, the user's own images and
MedMNIST: the papers' learning rates for it hardly move the weights, so they are in the `paper` presets only.
The default there is plain Adam at 1e-3, as in MedMNIST's released benchmark code.

CIFAR-100, SVHN and FEMNIST are not in those papers: their model and training are of FLIS and of Prigent et
al., who use them.
"""

from functools import partial

from fedgrid.engine.federation.data import npz_files, readers
from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.data.made_by_code import MADE_BY_CODE
from fedgrid.engine.federation.inputs import Inputs, pixels
from fedgrid.engine.federation.training.settings import Training

DIGITS_TRAINING = Training(rounds=15, batch_size=32, optimizer="sgd", learning_rate=0.1)
MNIST_TRAINING = Training(rounds=50, batch_size=32, optimizer="sgd", learning_rate=1e-2)
CIFAR10_TRAINING = Training(rounds=80, batch_size=64, optimizer="sgd", learning_rate=1e-2)
MEDMNIST_TRAINING = Training(rounds=75, batch_size=128, optimizer="adam", learning_rate=1e-3)
FLIS_TRAINING = Training(
    rounds=200, local_epochs=10, batch_size=10, optimizer="sgd", learning_rate=1e-2, momentum=0.5
)
NUMBERS_TRAINING = Training(rounds=30, batch_size=32, optimizer="sgd", learning_rate=0.1, normalise="dataset")
TEXT_TRAINING = Training(rounds=30, batch_size=32, optimizer="adam", learning_rate=1e-2)
FEMNIST_TRAINING = Training(rounds=500, batch_size=32, optimizer="adam", learning_rate=1e-3)


def default_of(inputs: Inputs) -> tuple[str, Training]:
    """Return model and training of the user's own data; no model for numbers that look like images."""
    match inputs.kind, inputs.shape:
        case "pixels", _:
            return "tinyvgg", MNIST_TRAINING
        case "tokens", _:
            return "lstm", TEXT_TRAINING
        case _, (_,):
            return "mlp", NUMBERS_TRAINING
        case _, (channels, length) if channels != length:
            return "cnn-1d", NUMBERS_TRAINING
    return "", NUMBERS_TRAINING


# Papers of the data sets, as BibTeX.
DIGITS = r"""@misc{alpaydin1998optical,
  author = {Alpaydin, Ethem and Kaynak, Cenk},
  title = {Optical Recognition of Handwritten Digits},
  howpublished = {UCI Machine Learning Repository},
  year = {1998},
  doi = {10.24432/C50P49}
}"""
MNIST = r"""@article{lecun1998gradient,
  author = {LeCun, Yann and Bottou, L{\'e}on and Bengio, Yoshua and Haffner, Patrick},
  title = {Gradient-Based Learning Applied to Document Recognition},
  journal = {Proceedings of the IEEE},
  volume = {86},
  number = {11},
  pages = {2278--2324},
  year = {1998}
}"""
FASHION_MNIST = r"""@misc{xiao2017fashion,
  author = {Xiao, Han and Rasul, Kashif and Vollgraf, Roland},
  title = {Fashion-{MNIST}: a Novel Image Dataset for Benchmarking Machine Learning Algorithms},
  year = {2017},
  eprint = {1708.07747},
  archiveprefix = {arXiv}
}"""
CIFAR = r"""@techreport{krizhevsky2009learning,
  author = {Krizhevsky, Alex},
  title = {Learning Multiple Layers of Features from Tiny Images},
  institution = {University of Toronto},
  year = {2009}
}"""
MEDMNIST = r"""@article{yang2023medmnist,
  author = {Yang, Jiancheng and Shi, Rui and Wei, Donglai and Liu, Zequan and Zhao, Lin and Ke, Bilian
    and Pfister, Hanspeter and Ni, Bingbing},
  title = {{MedMNIST} v2 -- A large-scale lightweight benchmark for {2D} and {3D} biomedical image
    classification},
  journal = {Scientific Data},
  volume = {10},
  pages = {41},
  year = {2023},
  doi = {10.1038/s41597-022-01721-8}
}"""
PATHMNIST = r"""@article{kather2019predicting,
  author = {Kather, Jakob Nikolas and Krisam, Johannes and Charoentong, Pornpimol and Luedde, Tom and
    Herpel, Esther and Weis, Cleo-Aron and others},
  title = {Predicting survival from colorectal cancer histology slides using deep learning: A
    retrospective multicenter study},
  journal = {PLOS Medicine},
  volume = {16},
  number = {1},
  year = {2019},
  doi = {10.1371/journal.pmed.1002730}
}"""
BLOODMNIST = r"""@article{acevedo2020dataset,
  author = {Acevedo, Andrea and Merino, Anna and Alf{\'e}rez, Santiago and Molina, {\'A}ngel and
    Bold{\'u}, Laura and Rodellar, Jos{\'e}},
  title = {A dataset of microscopic peripheral blood cell images for development of automatic recognition
    systems},
  journal = {Data in Brief},
  volume = {30},
  year = {2020},
  doi = {10.1016/j.dib.2020.105474}
}"""
SVHN = r"""@inproceedings{netzer2011reading,
  author = {Netzer, Yuval and Wang, Tao and Coates, Adam and Bissacco, Alessandro and Wu, Bo and Ng,
    Andrew Y.},
  title = {Reading Digits in Natural Images with Unsupervised Feature Learning},
  booktitle = {NIPS Workshop on Deep Learning and Unsupervised Feature Learning},
  year = {2011}
}"""
FEMNIST = r"""@misc{caldas2018leaf,
  author = {Caldas, Sebastian and Duddu, Sai Meher Karthik and Wu, Peter and Li, Tian and
    Kone{\v{c}}n{\'y}, Jakub and McMahan, H. Brendan and Smith, Virginia and Talwalkar, Ameet},
  title = {{LEAF}: A Benchmark for Federated Settings},
  year = {2018},
  eprint = {1812.01097},
  archiveprefix = {arXiv}
}

@inproceedings{cohen2017emnist,
  author = {Cohen, Gregory and Afshar, Saeed and Tapson, Jonathan and van Schaik, Andr{\'e}},
  title = {{EMNIST}: Extending {MNIST} to handwritten letters},
  booktitle = {International Joint Conference on Neural Networks (IJCNN)},
  year = {2017}
}"""

DATASETS: dict[str, Dataset] = {
    "digits": Dataset(
        "digits",
        "digits",
        "scikit-learn's load_digits, comes with it; every fifth image of a class is test",
        num_classes=10,
        inputs=pixels(1, 8, 8),
        pool_size=1442,
        model="digitnet",
        training=DIGITS_TRAINING,
        read=readers.digits,
        bibtex=DIGITS,
    ),
    "mnist": Dataset(
        "mnist",
        "MNIST",
        "torchvision, yann.lecun.com/exdb/mnist",
        num_classes=10,
        inputs=pixels(1, 28, 28),
        pool_size=60000,
        download_mb=12,
        model="tinyvgg",
        training=MNIST_TRAINING,
        read=readers.mnist,
        location="MNIST/raw",
        files=tuple(f"MNIST/raw/{name}" for name in readers.MNIST_FILES),
        fetch=partial(readers.fetch_torchvision, "MNIST"),
        bibtex=MNIST,
    ),
    "fmnist": Dataset(
        "fmnist",
        "Fashion-MNIST",
        "torchvision, github.com/zalandoresearch/fashion-mnist",
        num_classes=10,
        inputs=pixels(1, 28, 28),
        pool_size=60000,
        download_mb=31,
        model="tinyvgg",
        training=MNIST_TRAINING,
        read=readers.mnist,
        location="FashionMNIST/raw",
        files=tuple(f"FashionMNIST/raw/{name}" for name in readers.MNIST_FILES),
        fetch=partial(readers.fetch_torchvision, "FashionMNIST"),
        bibtex=FASHION_MNIST,
    ),
    "cifar10": Dataset(
        "cifar10",
        "CIFAR-10",
        "torchvision, www.cs.toronto.edu/~kriz/cifar.html",
        num_classes=10,
        inputs=pixels(3, 32, 32),
        pool_size=50000,
        download_mb=171,
        model="resnet34",
        training=CIFAR10_TRAINING,
        read=partial(readers.cifar, "CIFAR10"),
        files=tuple(f"cifar-10-batches-py/{name}" for name in readers.CIFAR10_FILES),
        fetch=partial(readers.fetch_torchvision, "CIFAR10"),
        bibtex=CIFAR,
    ),
    "pathmnist": Dataset(
        "pathmnist",
        "PathMNIST",
        "medmnist, zenodo.org/records/10519652; training and validation images are the pool",
        num_classes=9,
        inputs=pixels(3, 28, 28),
        pool_size=100000,
        download_mb=206,
        model="resnet34",
        training=MEDMNIST_TRAINING,
        read=npz_files.read_images,
        location="pathmnist.npz",
        files=("pathmnist.npz",),
        fetch=partial(readers.fetch_medmnist, "pathmnist"),
        bibtex=f"{MEDMNIST}\n\n{PATHMNIST}",
    ),
    "bloodmnist": Dataset(
        "bloodmnist",
        "BloodMNIST",
        "medmnist, zenodo.org/records/10519652; training and validation images are the pool",
        num_classes=8,
        inputs=pixels(3, 28, 28),
        pool_size=13671,
        download_mb=36,
        model="resnet34",
        training=MEDMNIST_TRAINING,
        read=npz_files.read_images,
        location="bloodmnist.npz",
        files=("bloodmnist.npz",),
        fetch=partial(readers.fetch_medmnist, "bloodmnist"),
        bibtex=f"{MEDMNIST}\n\n{BLOODMNIST}",
    ),
    "cifar100": Dataset(
        "cifar100",
        "CIFAR-100",
        "torchvision, www.cs.toronto.edu/~kriz/cifar.html; the fine classes",
        num_classes=100,
        inputs=pixels(3, 32, 32),
        pool_size=50000,
        download_mb=169,
        model="resnet9",
        training=FLIS_TRAINING.model_copy(update={"rounds": 150}),
        read=partial(readers.cifar, "CIFAR100"),
        files=tuple(f"cifar-100-python/{name}" for name in readers.CIFAR100_FILES),
        fetch=partial(readers.fetch_torchvision, "CIFAR100"),
        bibtex=CIFAR,
    ),
    "svhn": Dataset(
        "svhn",
        "SVHN",
        "torchvision, ufldl.stanford.edu/housenumbers; without its extra images",
        num_classes=10,
        inputs=pixels(3, 32, 32),
        pool_size=73257,
        download_mb=246,
        model="lenet5",
        training=FLIS_TRAINING,
        read=readers.svhn,
        location="SVHN",
        files=tuple(f"SVHN/{name}" for name in readers.SVHN_FILES),
        fetch=readers.fetch_svhn,
        bibtex=SVHN,
    ),
    "femnist": Dataset(
        "femnist",
        "FEMNIST",
        "LEAF, leaf.cmu.edu; made by `fedgrid convert femnist`; every tenth image of a writer is test",
        num_classes=62,
        inputs=pixels(1, 28, 28),
        pool_size=726_000,
        model="lenet5-tanh",
        training=FEMNIST_TRAINING,
        read=npz_files.read_images,
        location="femnist.npz",
        num_groups=3550,
        files=("femnist.npz",),
        facts=npz_files.facts,
        made_by="fedgrid convert femnist SOURCE",
        bibtex=FEMNIST,
    ),
    **{one.name: one for one in MADE_BY_CODE},
}
"""Data sets by name. A new one is an entry here and, for a new format, a reader."""
