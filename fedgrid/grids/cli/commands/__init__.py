"""The commands, one module for each group: options and help texts. Each imports what it needs late."""
