"""From a preset or YAML file to the configurations of a grid's runs."""
