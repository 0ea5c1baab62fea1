"""Looking after an installation and its storage: `fedgrid doctor` and `fedgrid delete`."""
