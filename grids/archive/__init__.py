"""The OCFL authors' archive: where it keeps what, how its files are read, and runs of ours made of them."""
