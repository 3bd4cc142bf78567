"""Makes oracle.json: what scipy and statsmodels say of the same numbers. Debian's python3-scipy and python3-statsmodels.

    /usr/bin/python3 test/study/oracle.py > test/study/oracle.json
"""
import itertools, json, random
import numpy as np
import statsmodels.api as sm
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

# what is drawn, swapped and counted by clusters
out["special"]["betaBelow"] = [[x, a, b, float(special.betainc(a, b, x))]
                               for x in (1e-6, 0.02, 0.3, 0.5, 0.97) for a, b in ((0.5, 0.5), (1, 30), (20, 0.5), (7.3, 400))]
out["special"]["betaQuantile"] = [[p, a, b, float(special.betaincinv(a, b, p))] for p in (0.0125, 0.025, 0.5, 0.975) for a, b in ((1, 20), (20, 1), (3, 38), (14.5, 0.5))]
out["special"]["studentAbove"] = [[t, df, float(stats.t.sf(t, df))] for t in (-1, 0, 0.5, 2.1, 9) for df in (1, 4, 39, 479)]
# stats.t.isf of scipy 1.10 has eight digits
isf = lambda q, df: float(np.sqrt(df * (1 / special.betaincinv(df / 2, 0.5, 2 * q) - 1)))
out["special"]["studentQuantile"] = [[q, df, isf(q, df)] for q in (0.025, 0.05) for df in (1, 2, 29, 39, 5759)]
out["special"]["fAbove"] = [[f, a, b, float(stats.f.sf(f, a, b))] for f in (0.2, 1, 3.3, 20) for a, b in ((1, 39), (4.4, 171.6), (11, 429))]
out["exact"] = [[k, n, level, *map(float, pr.proportion_confint(k, n, alpha=1 - level, method="beta"))]
                for k, n in ((0, 3), (3, 3), (20, 20), (19, 20), (7, 29)) for level in (0.95, 0.975)]
def weighted(ps, ws):
    # closed testing: the largest weighted Bonferroni p of all intersections that have this one in them
    full = []
    for i in range(len(ps)):
        worst = 0
        for size in range(len(ps)):
            for rest in itertools.combinations([j for j in range(len(ps)) if j != i], size):
                group = (i, *rest)
                worst = max(worst, min(ps[j] * sum(ws[k] for k in group) / ws[j] for j in group))
        full.append(min(1.0, worst))
    return full
out["weightedHolm"] = [[ps, ws, weighted(ps, ws)] for ps, ws in (
    ([0.01, 0.04, 0.03, 0.005], [0.25, 0.25, 0.4, 0.1]), ([0.02, 0.2, 0.001, 0.9, 0.04], [0.25, 0.25, 0.1, 0.1, 0.3]))]
def two_sided(values, observed):
    return float(np.mean(np.abs(values) >= abs(observed) * (1 - 1e-9)))
out["signFlip"] = []
for values in ([2, 2, 1], [1, -1, 3, 5, 2, 4, 4, 0], [1] * 9 + [-1] * 3, [0.5, 1.25, -0.2, 0.7, 0.1], [12, 7, 3, -2, 9, 11, -1, 4, 4, 6, 2, -5]):
    signs = np.array(list(itertools.product((1, -1), repeat=len(values))))
    out["signFlip"].append([values, two_sided(signs @ np.array(values), sum(values))])
out["labelSwap"] = []
for n, hits, chosen in (([12] * 6, [12, 12, 12, 0, 0, 0], 3), ([3, 2, 4, 3, 3, 1, 2, 3], [3, 1, 0, 2, 0, 0, 1, 3], 3), ([6] * 9, [6, 0, 1, 5, 2, 6, 6, 0, 3], 4)):
    n, hits = np.array(n), np.array(hits)
    score = hits - hits.sum() / n.sum() * n
    sums = np.array([score[list(c)].sum() for c in itertools.combinations(range(len(n)), chosen)])
    out["labelSwap"].append([n.tolist(), hits.tolist(), chosen, two_sided(sums, score[:chosen].sum())])
def robust(x, clusters, design):
    # a linear model with errors by clusters, without the correction for few that statsmodels makes, and with C/(C - 1)
    fit = sm.OLS(x, design).fit(cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": False})
    c = len(set(clusters))
    return fit.params, np.sqrt(np.diag(fit.cov_params()) * c / (c - 1))
out["clusters"] = []
nr = np.random.default_rng(7)
for c, sizes in ((40, (6, 6)), (35, (1, 9)), (60, (12, 12))):
    rows = []  # cluster, group, hit; the table is of both groups in each cluster
    for k in range(c):
        base = nr.normal(0.3, 1)
        for g in (0, 1):
            for _ in range(nr.integers(sizes[0], sizes[1] + 1)):
                rows.append((k, g, int(nr.random() < 1 / (1 + np.exp(-base - 0.2 * g)))))
    a = np.array(rows)
    tables = [[[int(((a[:, 0] == k) & (a[:, 1] == g)).sum()), int(a[(a[:, 0] == k) & (a[:, 1] == g), 2].sum())] for g in (0, 1)] for k in range(c)]
    first = a[a[:, 1] == 0]
    (rate,), (se,) = robust(first[:, 2], first[:, 0], np.ones((len(first), 1)))
    n_eff, t = min(len(first), rate * (1 - rate) / se ** 2), isf(0.025, c - 1)
    centre, half = rate + t * t / 2 / n_eff, t * np.sqrt(rate * (1 - rate) / n_eff + t * t / 4 / n_eff ** 2)
    (_, d), (_, sd) = robust(a[:, 2], a[:, 0], np.column_stack([np.ones(len(a)), a[:, 1]]))
    out["clusters"].append({"tables": tables, "rate": [float((centre - half) / (1 + t * t / n_eff)), float((centre + half) / (1 + t * t / n_eff))],
                            "difference": [float(d), float(d - t * sd), float(d + t * sd)]})
out["repeatedMeasures"] = []
for c, k in ((40, 3), (40, 12), (31, 6)):
    x = np.round(nr.normal(0, 1, (c, 1)) * 3 + nr.normal(0, 1, (c, k)) @ nr.normal(0.3, 1, (k, k)), 2) + np.arange(k) * 0.1
    long = [(i, j, x[i, j]) for i in range(c) for j in range(k)]
    anova = sm.stats.AnovaRM(__import__("pandas").DataFrame(long, columns=["s", "o", "y"]), "y", "s", within=["o"]).fit().anova_table
    contrast = np.linalg.svd(np.eye(k) - 1 / k)[0][:, : k - 1]
    v = np.linalg.eigvalsh(contrast.T @ np.cov(x.T) @ contrast)
    epsilon = float(v.sum() ** 2 / (k - 1) / (v ** 2).sum())
    f = float(anova["F Value"].iloc[0])
    out["repeatedMeasures"].append([x.tolist(), f, float(stats.f.sf(f, epsilon * (k - 1), epsilon * (k - 1) * (c - 1)))])
out["clusteredKappa"] = []
for c, m in ((40, 6), (30, 12)):
    tables = []
    for k in range(c):
        p = 1 / (1 + np.exp(-nr.normal(0.3, 1.5)))
        t = np.zeros((2, 2), int)
        for _ in range(m):
            t[int(nr.random() < p), int(nr.random() < p)] += 1
        tables.append(t)
    kap = lambda ts: float(cohens_kappa(sum(ts)).kappa)
    one = np.array([kap(tables[:i] + tables[i + 1:]) for i in range(c)])
    off = (one - one.mean()) ** 2
    half = isf(0.025, off.sum() ** 2 / (off ** 2).sum() - 1) * np.sqrt((c - 1) / c * off.sum())
    out["clusteredKappa"].append([[t.tolist() for t in tables], kap(tables), float(kap(tables) - half), float(kap(tables) + half)])
print(json.dumps(out))
