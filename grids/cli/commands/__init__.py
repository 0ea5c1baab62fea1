"""The commands, one module a group: options and help texts. Each imports what it needs when it runs."""
