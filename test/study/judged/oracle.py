"""Makes items.ndjson and labels.ndjson, and what scikit-learn and scipy say of them, by a reading of its own.

    python3 -m venv v; v/bin/pip install scikit-learn; v/bin/python test/study/judged/oracle.py; npx biome check --write test/study

In the folder of this file: 90 applications in two groups, three judges who agree with the model and with each other to
some degree, second thoughts, judgements taken back, of other answers, of ids that are not there, and of one value alone.
"""
import hashlib, json, os, random
import scipy, sklearn
from scipy.stats import binomtest
from sklearn.metrics import cohen_kappa_score

here = os.path.dirname(os.path.abspath(__file__))
rng = random.Random(20261126)
compact = lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def answer(agent, decision):
    output = {"approval_decision": decision, "rate": 5}
    return {"agent": agent, "output": output, "rung": "clean", "saw": "clean", "repairs": [], "calls": [],
            "attempts": 1, "usage": {"prompt": 10, "completion": 2}}


def hash_of(item):
    answers = [[step["agent"], step["output"]] for step in item["steps"]]
    decision = [item["decision"]["agent"], item["decision"]["output"]]
    judged = ["item", item["id"], item["ordering"], None, item["prompt"], None, None, item["input"], answers, decision]
    return hashlib.sha256(compact(judged).encode()).hexdigest()


items = []
for nth in range(90):
    decision = "approve" if rng.random() < 0.6 else "deny"
    items.append({"id": f"r{nth}", "row": nth + 1, "input": {"region": "north" if nth % 3 else "süd"}, "prompt": f"p{nth}",
                  "ordering": ["a", "b"], "steps": [answer("a", "approve"), answer("b", decision)],
                  "decision": answer("c", decision)})
model = {item["id"]: item["decision"]["output"]["approval_decision"] for item in items}
region = {item["id"]: item["input"]["region"] for item in items}
other = {"approve": "deny", "deny": "approve"}

lines, held = [], {}
def say(by, item, verdict, path="", **more):
    line = {"fw": "label", "id": item["id"], "path": path, "verdict": verdict, "by": by,
            "at": f"2026-11-26T19:{len(lines) // 60 % 60:02}:{len(lines) % 60:02}.000Z", "hash": more.pop("hash", None) or hash_of(item), **more}
    lines.append(line)
    held[(by, item["id"], path, line["hash"])] = line

for by, right, unsure, of in [("anna", 0.8, 0.05, 80), ("ben", 0.7, 0.1, 60), ("çlara", 0.9, 0.0, 12)]:
    drawn = sorted(rng.sample(range(90), of))
    for nth in drawn:
        item = items[nth]
        sample = {"seed": 7, "size": of, "of": 90}
        verdict = "unsure" if rng.random() < unsure else "right" if rng.random() < right else "wrong"
        if rng.random() < 0.1:
            say(by, item, rng.choice(["right", "wrong"]), sample=sample)  # and thinks again
        more = {"value": other[model[item["id"]]]} if verdict == "wrong" and rng.random() < 0.5 else {}
        say(by, item, verdict, sample=sample, **more)
        if rng.random() < 0.2:
            say(by, item, rng.choice(["right", "wrong", "unsure"]), path="/decision/output/rate")
        if rng.random() < 0.05:
            say(by, item, None)
say("anna", {"id": "nobody"}, "wrong", hash="0" * 64)
say("ben", items[0], "wrong", hash="1" * 64)
say("ben", items[1], "right", hash="1" * 64)

holds = [line for line in held.values() if line["verdict"] is not None]
judges = sorted({line["by"] for line in holds})
is_there = lambda line: line["id"] in model and line["hash"] == hash_of(items[int(line["id"][1:])])
of_text = {by: {line["id"]: line for line in holds if line["by"] == by and line["path"] == "" and is_there(line)} for by in judges}


def share(verdicts):
    right, wrong = verdicts.count("right"), verdicts.count("wrong")
    counts = [right, wrong, verdicts.count("unsure")]
    if right + wrong == 0:
        return [counts, None]
    ends = binomtest(right, right + wrong).proportion_ci(method="wilson")
    return [counts, [right / (right + wrong), float(ends.low), float(ends.high)]]


expected = {"versions": {"scikit-learn": sklearn.__version__, "scipy": scipy.__version__}, "judges": {}, "between": []}
for by in judges:
    own = of_text[by]
    decided = [line for line in own.values() if line["verdict"] != "unsure"]
    said = [model[line["id"]] if line["verdict"] == "right" else line.get("value", other[model[line["id"]]]) for line in decided]
    values = [line["verdict"] for line in holds if line["by"] == by and line["path"] != "" and is_there(line)]
    expected["judges"][by] = {
        "all": share([line["verdict"] for line in own.values()]),
        "groups": {name: share([line["verdict"] for line in own.values() if region[line["id"]] == name])
                   for name in sorted(set(region.values()))},
        "n": len(decided),
        "kappa": float(cohen_kappa_score([model[line["id"]] for line in decided], said)),
        "rate": share(values)[0],
        "missing": sum(line["by"] == by and line["path"] == "" and line["id"] not in model for line in holds),
        "otherText": sum(line["by"] == by and line["path"] == "" and line["id"] in model and not is_there(line)
                         and line["id"] not in own for line in holds),
    }
for at, one in enumerate(judges):
    for two in judges[at + 1:]:
        pairs = {}
        for by in (one, two):
            for line in holds:
                if line["by"] == by and is_there(line):
                    pairs.setdefault((line["id"], line["path"]), {})[by] = line["verdict"]
        both = [pair for pair in pairs.values() if len(pair) == 2]
        expected["between"].append([one, two, len(both), sum(pair[one] == pair[two] for pair in both),
                                    float(cohen_kappa_score([pair[one] for pair in both], [pair[two] for pair in both]))])

for name, text in [("items.ndjson", "".join(compact(item) + "\n" for item in items)),
                   ("labels.ndjson", "".join(compact(line) + "\n" for line in lines)),
                   ("expected.json", json.dumps(expected, indent=1, ensure_ascii=False) + "\n")]:
    with open(os.path.join(here, name), "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
