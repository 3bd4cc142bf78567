"""Makes oracle.json: what scipy and statsmodels say of the same numbers. Debian's python3-scipy and python3-statsmodels.

    /usr/bin/python3 test/study/oracle.py > test/study/oracle.json
"""
import json, random
import numpy as np
from scipy import special, stats
from statsmodels.stats import contingency_tables as ct
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.multitest import multipletests
from statsmodels.stats import proportion as pr

rng = random.Random(20261122)
SHARES = [(0, 10, 5, 10), (10, 10, 5, 10), (1, 3, 2, 5), (17, 40, 31, 52), (133, 197, 1527, 1681), (6, 11, 3761, 4455),
          (0, 7, 900, 1000), (40000, 69120, 20000, 34000)]
SHARES += [(rng.randint(1, n - 1), n, rng.randint(1, m - 1), m) for n, m in [(rng.randint(5, 400), rng.randint(5, 400)) for _ in range(12)]]
out = {"versions": {"scipy": __import__("scipy").__version__, "statsmodels": __import__("statsmodels").__version__}}
num = lambda x: None if x is None or not np.isfinite(x) else float(x)

out["special"] = {
    "normalAbove": [[z, float(stats.norm.sf(z))] for z in (-6, -1.96, -0.1, 0, 0.5, 1.6448536269514722, 2.5, 5, 9, 20)],
    "chiSquaredAbove": [[x, df, float(stats.chi2.sf(x, df))] for x in (0, 0.1, 1, 5.5, 30, 200) for df in (1, 2, 5, 23)],
    "logGamma": [[x, float(special.gammaln(x))] for x in (0.1, 0.5, 1, 1.5, 2, 10, 171.5, 4097, 69121)],
    "kolmogorovAbove": [[x, float(special.kolmogorov(x))] for x in (0.2, 0.5, 0.9, 1.0, 1.36, 2, 4)],
}
rows = []
for a, n, b, m in SHARES:
    low, high = pr.proportion_confint(a, n, method="wilson")
    row = {"a": a, "n": n, "b": b, "m": m, "wilson": [low, high]}
    row["fisher"] = float(stats.fisher_exact([[a, n - a], [b, m - b]])[1])
    z, p = pr.proportions_ztest([a, b], [n, m])
    row["z"], row["zp"] = num(z), num(p)
    row["difference"] = [float(x) for x in pr.confint_proportions_2indep(a, n, b, m, compare="diff", method="newcomb")]
    method = "log-adjusted" if a == 0 else "log"
    row["ratio"] = [float(x) for x in pr.confint_proportions_2indep(a, n, b, m, compare="ratio", method=method)]
    rows.append(row)
out["shares"] = rows
out["mcnemar"] = [[b, c, float(ct.mcnemar([[10, b], [c, 10]], exact=True).pvalue)]
                  for b, c in [(0, 0), (0, 1), (1, 1), (0, 6), (3, 9), (12, 30), (100, 140), (2000, 2300), (30, 9000)]]
families = [[0.01, 0.04, 0.03, 0.005], [0.02, 0.02, 0.5, 1.0], [0.9], [0.04] * 5, [rng.random() ** 3 for _ in range(20)]]
out["holm"] = [[ps, [float(x) for x in multipletests(ps, method="holm")[1]]] for ps in families]
tables = [[[20, 5], [10, 15]], [[50, 0], [0, 50]], [[0, 30], [30, 0]], [[10, 2, 3], [1, 20, 4], [0, 5, 30]], [[10, 0, 3], [0, 0, 0], [2, 0, 30]]]
out["kappa"] = []
for table in tables:
    k = cohens_kappa(table)
    out["kappa"].append([table, float(k.kappa), float(k.kappa_low), float(k.kappa_upp)])
out["cochranQ"] = []
for n, k in [(12, 3), (40, 4), (100, 12), (30, 2)]:
    x = [[int(rng.random() < 0.3 + 0.05 * j) for j in range(k)] for _ in range(n)]
    r = ct.cochrans_q(np.array(x))
    out["cochranQ"].append([x, float(r.statistic), float(r.pvalue)])
out["ks"] = []
for n, m in [(5, 7), (40, 60), (300, 200)]:
    x, y = [round(rng.gauss(0, 1), 2) for _ in range(n)], [round(rng.gauss(0.3, 1), 2) for _ in range(m)]
    d = float(stats.ks_2samp(x, y).statistic)
    out["ks"].append([x, y, d, float(special.kolmogorov(np.sqrt(n * m / (n + m)) * d))])
out["paired"] = []
for n, b, c, margin in [(480, 60, 12, 0.02), (480, 5, 5, 0.02), (100, 0, 0, 0.05), (1, 0, 0, 0.02), (69120, 900, 870, 0.01)]:
    # Agresti and Min 2005: half a pair in each cell, then Wald
    m, bb, cc = n + 2, b + 0.5, c + 0.5
    se = np.sqrt((bb + cc - (bb - cc) ** 2 / m) / m ** 2)
    lo, hi = (b - c) / m - stats.norm.ppf(0.975) * se, (b - c) / m + stats.norm.ppf(0.975) * se
    d = (b - c) / n
    p = max(stats.norm.sf((d + margin) / se), stats.norm.cdf((d - margin) / se))
    out["paired"].append([n, b, c, margin, float(lo), float(hi), float(p)])
print(json.dumps(out))
