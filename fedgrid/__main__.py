"""Entry point: `python -m fedgrid` runs the command `fedgrid`."""

from fedgrid.grids.cli.main import main

if __name__ == "__main__":
    main()
