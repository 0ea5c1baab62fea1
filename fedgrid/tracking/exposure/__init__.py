"""Tables of what leaves a client: messages before training, privacy spent; attackers and moved clients."""
