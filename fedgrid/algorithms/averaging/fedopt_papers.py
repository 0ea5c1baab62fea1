"""The papers of FedOpt and of its server optimizers, as BibTeX."""

SOURCE = "Reddi et al. 2021, arXiv:2003.00295"
BIBTEX = r"""@inproceedings{mcmahan2017communication,
  author = {McMahan, H. Brendan and Moore, Eider and Ramage, Daniel and Hampson, Seth and Ag{\"u}era y
    Arcas, Blaise},
  title = {Communication-Efficient Learning of Deep Networks from Decentralized Data},
  booktitle = {Proceedings of the 20th International Conference on Artificial Intelligence and Statistics
    (AISTATS)},
  year = {2017},
  eprint = {1602.05629},
  archiveprefix = {arXiv}
}

@inproceedings{reddi2021adaptive,
  author = {Reddi, Sashank J. and Charles, Zachary and Zaheer, Manzil and Garrett, Zachary and Rush,
    Keith and Kone{\v{c}}n{\'y}, Jakub and Kumar, Sanjiv and McMahan, H. Brendan},
  title = {Adaptive Federated Optimization},
  booktitle = {International Conference on Learning Representations (ICLR)},
  year = {2021},
  eprint = {2003.00295},
  archiveprefix = {arXiv}
}"""
FEDAVGM_BIBTEX = r"""@misc{hsu2019measuring,
  author = {Hsu, Tzu-Ming Harry and Qi, Hang and Brown, Matthew},
  title = {Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification},
  year = {2019},
  eprint = {1909.06335},
  archiveprefix = {arXiv}
}"""
BIBTEX_OF_OPTIMIZER = {
    "momentum": FEDAVGM_BIBTEX,
    **dict.fromkeys(("adagrad", "adam", "yogi"), BIBTEX),
}
"""Who proposed a server optimizer."""
