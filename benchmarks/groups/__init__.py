"""Which methods find the hidden groups of federations, and which cut up federations that have none."""
