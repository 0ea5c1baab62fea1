"""Training samples a second of the Ray engine against a plain two-process PyTorch loop.

    python -m benchmarks.throughput

15 clients with about 256 MNIST images each, 3 local epochs, tinyvgg, batch 32; whole rounds, state and
records on disk included on the engine's side.
"""

from benchmarks.rounds import compare, config, show

if __name__ == "__main__":
    show(compare(config(draws=370, epochs=3), rounds=1, repetitions=4), "15 x 256 MNIST images, 3 epochs")
