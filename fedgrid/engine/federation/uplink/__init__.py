"""What leaves a client: the steps between its training and the server, and what they cost in privacy."""
