"""One run, from configuration to finished folder, with the encoder that its messages need."""
