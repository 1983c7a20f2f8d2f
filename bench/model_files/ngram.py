"""The constants of an n-gram table: sizes and offsets of its heads, and the hash's multipliers.

Called by the family that has such a table.
Source: models/qwen4_exp of transformers 5.24.0; the released model's constants are in the tests.
"""

from __future__ import annotations

from math import isqrt

MASK = 2**64 - 1
GOLDEN_GAMMA = 0x9E3779B97F4A7C15  # of splitmix64
RELEASED_SEED = 1234


def head_sizes(rows: int, heads: int) -> list[int]:
    """The largest `heads` successive primes whose sum is at most `rows`. ValueError if none are."""
    first = _prime(rows // heads, step=-1)  # from any later one on, all are above the mean
    sizes = [first]
    while first and len(sizes) < heads:
        sizes.append(_prime(sizes[-1] + 1, step=1))
    while first and sum(sizes) > rows:
        first = _prime(first - 1, step=-1)
        sizes = [first, *sizes[:-1]]
    if not first:
        raise ValueError(f"{rows} rows are too few for {heads} heads of different prime sizes")
    return sizes


def head_offsets(sizes: list[int]) -> list[int]:
    """The first row of each head."""
    return [sum(sizes[:head]) for head in range(len(sizes))]


def multipliers(vocab: int, count: int, *, seed: int = RELEASED_SEED) -> list[int]:
    """Odd numbers so small that a product with a token id stays below 2^63."""
    half = max(1, (2**63 - 1) // vocab // 2)
    return [2 * (_splitmix64(seed + GOLDEN_GAMMA * (j + 1)) % half) + 1 for j in range(count)]


def _splitmix64(state: int) -> int:
    z = (state + GOLDEN_GAMMA) & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def _prime(number: int, *, step: int) -> int:
    """The nearest prime from `number` on, upwards or downwards; 0 if there is none."""
    while number >= 2 and not _is_prime(number):
        number += step
    return number if number >= 2 else 0


def _is_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, isqrt(number) + 1))
