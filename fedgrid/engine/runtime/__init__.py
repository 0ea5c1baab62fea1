"""Where and how a run goes: its clients' processes, its folder, records, storage, round cache, plugins."""
