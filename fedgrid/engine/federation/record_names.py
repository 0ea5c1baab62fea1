"""Names of the columns in a run's records that several modules share."""

COUNTS, MEMBERS, MESSAGE = "counts", "members", "message"
"""Columns that only some algorithms fill (`Traits.columns`). `counts`: number of clients that chose each
model in a round. `members`: the clients whose models a client's cluster averages, where clusters may
overlap. `message`: bytes and seconds of what clients send about their data."""

MESSAGE_BYTES = ("message_bytes", "encoder_bytes")

PARTS = ("trained", "excluded", "dropped", "not asked", "not joined", "held out", "spent")
"""A client's part in a round: `trained` sent a usable update, `excluded` one that is NaN or infinite,
`dropped` was sampled but sent none, `not asked` was not sampled, `not joined` is not in the federation
yet, `held out` never is, `spent` was sampled but has not enough left of its privacy budget."""

SCORES = ("loss", "accuracy", "f1_union", "f1", "balanced_accuracy", "recall")
"""Scores of each test. `f1_union` averages over the classes that are true or predicted (as published),
`f1` over those in the test set; `recall` has one value per class, NaN for a class that the test set
lacks."""

PROBABILITY_SCORES = ("auc", "ece")
"""Scores of runs with `evaluation.probabilities`: AUC, one class against the rest, mean over the classes
in the test set; expected calibration error."""

TARGET, R2 = "target", "r2"
"""Columns of runs whose data have numbers to predict: the mark of such runs, and R2, their score next to the
loss."""
OWN_MOMENTS = ("test_mean", "test_square")
"""Columns of the same runs: mean and mean square of the numbers in a client's own test set."""

SERVED_TESTS = ("personalised", "generalised")
TESTS = ("local_own", "local_server", *SERVED_TESTS)
"""Tests as model and test set: the client's model after local training, on its own images and on the
server's; its cluster's model after aggregation, on the same two, under the names of the scores."""

GLOBAL_TESTS = ("global_own", "global")
"""Tests of the single model of all clients, on the same two sets, where `evaluation.global_model` is set."""

GLOBAL_MODEL, PROBABILITIES = "global_model", "probabilities"
"""Columns of the tests that are made where these keys of `evaluation` are set."""
FAULT = "fault"
"""Column of `clients.parquet` in runs with attackers: what the client does, null for an honest one."""
GROUP = "group"
"""Column of `clients.parquet` in runs with split `natural` or `file`: the name that the data give the hidden
group."""
EPSILON, CLUSTER_EPSILON = "epsilon", "cluster_epsilon"
"""Columns of runs with noise. `epsilon`: in the clients' records the client's own, in the rounds' records the
largest of any client. `cluster_epsilon`: of all present members of the client's cluster as one, whose data
change together."""
