"""Statistics of a few windows, for the benchmark's tables."""

import math

# Student's t for two-sided 95 %, by degrees of freedom; beyond 30 the normal distribution's is close enough.
T_95 = [
    None,
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
    2.110,
    2.101,
    2.093,
    2.086,
    2.080,
    2.074,
    2.069,
    2.064,
    2.060,
    2.056,
    2.052,
    2.048,
    2.045,
    2.042,
]


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def t_interval(values):
    """(mean, lower end, upper end) of the mean's 95 % confidence interval. With one value it is infinitely wide."""
    count = len(values)
    mean = sum(values) / count
    if count < 2:
        return mean, -math.inf, math.inf
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    half = (T_95[count - 1] if count - 1 < len(T_95) else 1.96) * deviation / math.sqrt(count)
    return mean, mean - half, mean + half


def ratio(ours, others):
    """{"median", "mean", "low", "high", "rounds"} of our rate over the other's, per round of neighbouring windows."""
    rounds = [mine / other for mine, other in zip(ours, others)]
    mean, low, high = t_interval(rounds)
    return {"median": median(rounds), "mean": mean, "low": low, "high": high, "rounds": rounds}


def spread(values):
    return {"median": median(values), "min": min(values), "max": max(values)}
