"""What a client does in a round, and what it and the server send each other."""
