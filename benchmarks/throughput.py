"""Training samples per second of the Ray engine against a plain two-process PyTorch loop.

    python -m benchmarks.throughput
    python -m benchmarks.throughput --precision bfloat16    # the engine; the loop stays in float32

15 clients with about 256 MNIST images each, 3 local epochs, tinyvgg, batch size 32. The engine's rounds
include writing the state and the records.
"""

import argparse

from benchmarks.rounds import compare, config, show

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    precision = parser.parse_args().precision
    timing = compare(config(draws=370, epochs=3), rounds=1, repetitions=4, precision=precision)
    show(timing, f"15 x 256 MNIST images, 3 epochs, the engine in {precision}")
