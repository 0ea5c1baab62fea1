"""Names in the records of a run that the round and their declarations share."""

COUNTS, MEMBERS, MESSAGE = "counts", "members", "message"
"""Columns of algorithms that fill them (`Traits.columns`): how many clients chose each model in a round;
the clients whose models a client's cluster averages, where clusters may overlap; with `message` bytes and
seconds of what clients say about their data."""

MESSAGE_BYTES = ("message_bytes", "encoder_bytes")

PARTS = ("trained", "excluded", "dropped", "not asked", "not joined", "held out", "spent")
"""A client's part in a round: `trained` sent a usable update, `excluded` one that is NaN or infinite,
`dropped` was sampled but sent none, `not asked` was not sampled, `not joined` is not in the federation
yet, `held out` never is, `spent` was sampled but has not enough left of its privacy budget."""

SCORES = ("loss", "accuracy", "f1_union", "f1", "balanced_accuracy", "recall")
"""`f1_union` averages over the classes that are true or predicted (as published), `f1` over those in the
test set; `recall` has one value per class, NaN for a class that the test set lacks."""

PROBABILITY_SCORES = ("auc", "ece")
"""Of runs with `evaluation.probabilities`: AUC, one class against the rest, mean over the classes in the test
set; expected calibration error."""

TARGET, R2 = "target", "r2"
"""Columns of runs of data with numbers to predict, and their score beside the loss."""
OWN_MOMENTS = ("test_mean", "test_square")
"""Columns of the same runs: of the numbers in a client's own test set."""

SERVED_TESTS = ("personalised", "generalised")
TESTS = ("local_own", "local_server", *SERVED_TESTS)
"""Model and test set: the client's after local training, on its own images and on the server's; its cluster's
after aggregation, on the same two, by the names that scores have."""

GLOBAL_TESTS = ("global_own", "global")
"""The same of the one model for all, where `evaluation.global_model` asks for it."""

GLOBAL_MODEL, PROBABILITIES = "global_model", "probabilities"
"""Columns of the tests that these keys of `evaluation` ask for."""
FAULT = "fault"
"""The column of `clients.parquet` of runs with attackers: what the client does, null of an honest one."""
GROUP = "group"
"""The column of `clients.parquet` of runs with split natural: what the data set calls the hidden group."""
EPSILON, CLUSTER_EPSILON = "epsilon", "cluster_epsilon"
"""Columns of runs with noise. `epsilon`: in the clients' records the client's own, in the rounds' the largest
of any client. `cluster_epsilon`: of all present members of the client's cluster as one, whose data change
together."""
