"""Figures of percentiles.json by Python's own statistics module, which shares no code with fw: run it to make them again.

statistics.quantiles(method='inclusive') is the linear interpolation of numpy.percentile, pstdev its std with ddof 0.
Ranks of the intervals are sums of exact binomial terms, as fractions.

    python3 test/bench/oracle.py > test/bench/percentiles.json
"""
import json
import math
import random
import statistics
from fractions import Fraction


def percentile(samples, p):
    if len(samples) == 1:
        return samples[0]
    return statistics.quantiles(samples, n=1000, method='inclusive')[round(p * 10) - 1]


def ranks(n, percent):
    """Largest l with P(B < l) <= 2.5 %, smallest u with P(B >= u) <= 2.5 %; B is binomial (n, p)."""
    p = Fraction(percent).limit_denominator(1000) / 100
    terms = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    tail = Fraction(1, 40)
    low = high = None
    below = Fraction(0)
    for k in range(n):
        below += terms[k]
        if below > tail:
            break
        low = k + 1
    above = Fraction(0)
    for k in range(n, 0, -1):
        above += terms[k]
        if above > tail:
            break
        high = k
    return [low, high]


random.seed(20261122)
cases = []
for n in [1, 2, 3, 7, 20, 99, 100, 101, 1000]:
    samples = [round(random.lognormvariate(4, 1), 6) for _ in range(n)]
    cases.append({
        'samples': samples,
        'mean': statistics.fmean(samples),
        'std': statistics.pstdev(samples),
        'percentiles': {str(p): percentile(samples, p) for p in [1, 25, 50, 90, 95, 99, 99.9]},
    })
sizes = [1, 5, 10, 71, 72, 100, 367, 368, 500, 1000]
print(json.dumps({
    'cases': cases,
    'ranks': [{'n': n, 'p': p, 'ranks': ranks(n, p)} for n in sizes for p in [50, 90, 95, 99]],
}, indent=1))
