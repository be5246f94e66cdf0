"""The normal distribution, to the same bit on every machine."""

from statistics import NormalDist

_STANDARD = NormalDist()
_GRAIN = 2.0**-36


def quantile(probability: float) -> float:
    """The standard normal quantile, rounded to a multiple of 2^-36.

    In the tails it needs a logarithm, whose last bit depends on the machine's math library. Rounding takes
    that bit away.

    >>> quantile(0.5), round(quantile(0.975), 6)
    (0.0, 1.959964)
    """
    return round(_STANDARD.inv_cdf(probability) / _GRAIN) * _GRAIN
