"""The OCFL authors' archive: its folders, its files, and their import as runs."""
