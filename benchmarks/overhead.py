"""The overhead of the engine in a round: 8 images per client and one epoch, against a plain loop.

python -m benchmarks.overhead
"""

from benchmarks.rounds import compare, config, show

if __name__ == "__main__":
    show(compare(config(draws=12, epochs=1), rounds=10, repetitions=7), "15 x 8 MNIST images, 1 epoch")
