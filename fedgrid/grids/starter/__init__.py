"""The files that `fedgrid init` writes; STUDY and PLUGIN in them are names of the study's own."""
