"""Settings of torch that change bits, for the process."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def fixed_numerics(tf32: bool) -> Iterator[None]:
    """Set everything in torch that changes bits and is global to the process, inside the block.

    One thread: the last bits of a convolution depend on their number, and a run's numbers must not depend on
    where its clients run; more cores serve more actors. On a GPU: TF32 as asked, and only those algorithms of
    cuDNN that are deterministic, so that a round that is computed again has the same bits.
    """
    import torch

    cudnn, matmul, threads = torch.backends.cudnn, torch.backends.cuda.matmul, torch.get_num_threads()
    conv = cudnn.conv  # type: ignore[attr-defined]
    before = conv.fp32_precision, matmul.fp32_precision, cudnn.deterministic, cudnn.benchmark
    precision = "tf32" if tf32 else "ieee"

    def put(convolutions: str, products: str, deterministic: bool, benchmark: bool) -> None:
        conv.fp32_precision, matmul.fp32_precision = convolutions, products
        cudnn.deterministic, cudnn.benchmark = deterministic, benchmark

    torch.set_num_threads(1)
    put(precision, precision, deterministic=True, benchmark=False)
    try:
        yield
    finally:
        put(*before)
        torch.set_num_threads(threads)
