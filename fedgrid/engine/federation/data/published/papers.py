"""Papers of published data sets, as BibTeX."""

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
MEDMNIST_SOURCES = {"pathmnist": (PATHMNIST,), "bloodmnist": (BLOODMNIST,)}
"""Papers of the origin of MedMNIST's images, by the name of the set."""
SVHN = r"""@inproceedings{netzer2011reading,
  author = {Netzer, Yuval and Wang, Tao and Coates, Adam and Bissacco, Alessandro and Wu, Bo and Ng,
    Andrew Y.},
  title = {Reading Digits in Natural Images with Unsupervised Feature Learning},
  booktitle = {NIPS Workshop on Deep Learning and Unsupervised Feature Learning},
  year = {2011}
}"""
LEAF = r"""@misc{caldas2018leaf,
  author = {Caldas, Sebastian and Duddu, Sai Meher Karthik and Wu, Peter and Li, Tian and
    Kone{\v{c}}n{\'y}, Jakub and McMahan, H. Brendan and Smith, Virginia and Talwalkar, Ameet},
  title = {{LEAF}: A Benchmark for Federated Settings},
  year = {2018},
  eprint = {1812.01097},
  archiveprefix = {arXiv}
}"""
EMNIST = r"""@inproceedings{cohen2017emnist,
  author = {Cohen, Gregory and Afshar, Saeed and Tapson, Jonathan and van Schaik, Andr{\'e}},
  title = {{EMNIST}: Extending {MNIST} to handwritten letters},
  booktitle = {International Joint Conference on Neural Networks (IJCNN)},
  year = {2017}
}"""
