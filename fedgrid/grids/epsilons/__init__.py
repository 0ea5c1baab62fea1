"""An analysis of finished runs that proposes Sattler's epsilons from a centralised training."""
