"""Registry entries of algorithms that cluster before training."""

from fedgrid.algorithms.clustered.before_training import embeddings, ladd
from fedgrid.algorithms.contract.encoder import EncoderSettings
from fedgrid.algorithms.contract.entry import AlgorithmEntry

SOURCE = "Prigent et al. 2024"
CUTS = {"threshold": ["best-ch", "widest-gap"], "normalise": ["class", "vector"]}
"""Search space of `embeddings`."""

ENTRIES = (
    AlgorithmEntry(
        "embeddings",
        "Embeddings",
        "clusters before round 1, by flipped bits of mean codes of each class",
        SOURCE,
        embeddings.Embeddings,
        embeddings.EmbeddingsSettings(),
        bibtex=embeddings.BIBTEX,
        search=CUTS,
        arena={"encoder": {"name": "convolutional", "public": "reference", "epochs": 50}},
    ),
    AlgorithmEntry(
        "ladd",
        "LADD",
        "clusters before round 1, by the low frequencies of each class's images",
        "Shenaj et al. 2023",
        ladd.Ladd,
        ladd.LaddSettings(),
        bibtex=ladd.BIBTEX,
        search={"share": {"low": 0.05, "high": 0.45}, "per_class": [True, False]},
        arena={"share": 0.25},
    ),
    AlgorithmEntry(
        "embeddings-as-published",
        "Embeddings as published",
        "as its release: the worst cut that it accepts, two layers shared",
        SOURCE,
        embeddings.Embeddings,
        embeddings.EmbeddingsSettings(
            encoder=EncoderSettings(federated=10, batch_statistics=True),
            threshold="bayesian-reversed",
            least_clusters=3,
            least_members=10,
            shared=2,
            similarity_over="state",
        ),
        bibtex=embeddings.BIBTEX,
        search=CUTS,
    ),
)
