"""Shares and differences with their intervals, by the standard library alone."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

Z = 1.959963984540054  # of 95 %
SAMPLES = 2000  # of a bootstrap
SEED = 20261130


def wilson(passed: int, count: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share, without continuity correction; (0, 1) of none.

    Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
    """
    if not count:
        return 0.0, 1.0
    share, square = passed / count, Z * Z
    middle = share + square / (2 * count)
    spread = Z * math.sqrt(share * (1 - share) / count + square / (4 * count * count))
    scale = 1 + square / count
    low = 0.0 if passed == 0 else (middle - spread) / scale
    high = 1.0 if passed == count else (middle + spread) / scale
    return low, high


Pairs = Mapping[str, Sequence[tuple[bool, bool]]]  # by case: (before, after) of each of its turns


def difference(pairs: Pairs) -> tuple[float, float, float]:
    """How much larger the share of "after" is, and its 95 % interval.

    A bootstrap over whole cases, because the turns of one case are not independent of each other;
    the same pairs give the same interval.
    """
    groups = [[int(after) - int(before) for before, after in pairs[case]] for case in sorted(pairs)]
    groups = [group for group in groups if group]
    if not groups:
        return 0.0, -1.0, 1.0
    sums = [(sum(group), len(group)) for group in groups]
    chance = random.Random(SEED)
    means = sorted(_mean([sums[chance.randrange(len(sums))] for _ in sums]) for _ in range(SAMPLES))
    low, high = means[int(SAMPLES * 0.025)], means[int(SAMPLES * 0.975) - 1]
    return _mean(sums), low, high


def _mean(sums: Sequence[tuple[int, int]]) -> float:
    return sum(total for total, _ in sums) / sum(count for _, count in sums)


def mcnemar(better: int, worse: int) -> float:
    """The exact two-sided p of McNemar's test: how likely it is that pairs which changed fall
    apart that unevenly, or more, by chance."""
    changed = better + worse
    if not changed:
        return 1.0
    tail = sum(math.comb(changed, k) for k in range(min(better, worse) + 1))
    return min(1.0, float(2 * tail) / float(2**changed))
