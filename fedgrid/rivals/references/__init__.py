"""References: each rival by hand in plain torch, independent of its plugin."""
