"""The papers' tables, and those that a reviewer asks for, from a study."""
