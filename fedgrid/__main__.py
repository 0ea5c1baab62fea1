"""`python -m fedgrid` is the command `fedgrid`."""

from fedgrid.grids.cli.main import main

if __name__ == "__main__":
    main()
