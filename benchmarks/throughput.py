"""Training samples per second of the Ray engine against a plain two-process PyTorch loop.

    python -m benchmarks.throughput

15 clients with about 256 MNIST images each, 3 local epochs, tinyvgg, batch size 32. The engine's rounds
include writing the state and the records.
"""

from benchmarks.rounds import compare, config, show

if __name__ == "__main__":
    show(compare(config(draws=370, epochs=3), rounds=1, repetitions=4), "15 x 256 MNIST images, 3 epochs")
