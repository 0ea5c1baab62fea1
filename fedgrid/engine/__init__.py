"""One run: data, models, local training, the client and server actors."""
