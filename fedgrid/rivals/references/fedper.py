"""FedPer, by hand: a client trains body and head together, and only the body is averaged.

In a round a client receives the body, keeps its own head (which starts at the common start) and trains both
by plain SGD for all epochs. The server averages the bodies. A client is tested with the body just averaged
and its own head. These are the steps of FedRep without its two phases, and `run` is FedRep's.

Source: Arivazhagan, Aggarwal, Singh, Choudhary, "Federated Learning with Personalization Layers", 2019,
arXiv:1912.00818; facts: RIVALS B5. There is no code by the authors; PFLlib, fluke, FL-bench and FedRep's
repository agree on these steps. That all heads start alike is PFLlib's choice.
"""

from fedgrid.rivals.references import fedrep

QUIRKS = ()
FROM_MEMORY = ""
SETTINGS = {"together": True}
NORMS = False

run = fedrep.run
