"""Many runs: presets, expansion, the launcher, the command line."""
