"""The command line that benchmarks have in common."""

import argparse


def build_parser(doc: str | None, quick: str) -> argparse.ArgumentParser:
    """Build a benchmark's parser, with the option `--quick`.

    Args:
        doc: the module's docstring, whose first line describes the benchmark.
        quick: what `--quick` leaves of the benchmark. The figures are then worth nothing: it shows that the
            benchmark runs to its end, in a second or two, on images that need no download.
    """
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=quick)
    return parser
