"""The steps of a curve, without torch: how many pixels are exchanged at a time, and at each point.

Shapes: an image of P pixels, K steps, so K + 1 points of a curve.
"""

from fedgrid.engine.federation.errors import ConfigError


def pixels_a_step(num_pixels: int, num_steps: int) -> int:
    """Return the pixels to exchange at a time so that at most `num_steps` steps are enough.

    Raises:
        ConfigError: not 1 to `num_pixels` steps.
    """
    if not 1 <= num_steps <= num_pixels:
        raise ConfigError(f"{num_steps} steps for an image of {num_pixels} pixels; choose 1 to {num_pixels}")
    return -(-num_pixels // num_steps)


def counts(num_pixels: int, step: int) -> tuple[int, ...]:
    """Return the number of exchanged pixels at each of the K + 1 points: 0, `step`, ..., P.

    Raises:
        ConfigError: `step` is not 1 to `num_pixels`.
    """
    check_step(num_pixels, step)
    return (*range(0, num_pixels, step), num_pixels)


def check_step(num_pixels: int, step: int) -> None:
    """Check that a step is 1 to `num_pixels` pixels.

    Raises:
        ConfigError: it is not.
    """
    if not 1 <= step <= num_pixels:
        raise ConfigError(
            f"{step} pixels a step in an image of {num_pixels} pixels; choose 1 to {num_pixels}"
        )
