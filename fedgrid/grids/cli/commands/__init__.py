"""The commands: options and help texts, one module a group. Each imports what it needs when it runs."""
