"""Starting a study: the files of `fedgrid init`, and the JSON Schema of a grid's YAML."""
