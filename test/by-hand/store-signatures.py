"""The signatures of fw against those of botocore: random requests, each signed by both at the same second.

   python3 -m venv V; V/bin/pip install boto3; test/by-hand/store-signatures.sh V/bin/python [COUNT] [SEED]
"""
import json, random, subprocess, sys, datetime
from unittest import mock
import botocore.auth
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from urllib.parse import quote

count, seed = int(sys.argv[2]) if len(sys.argv) > 2 else 400, int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(2**31)
print(f"seed {seed}")
pick = random.Random(seed)
LETTERS = "abcXYZ019-._~ +%&=?#/:;,@!$'()*<>\"\\^`{|}[]\t\n" + "äßé日本語🙂"
text = lambda most: "".join(pick.choice(LETTERS) for _ in range(pick.randint(1, most)))
cases = []
for _ in range(count):
    key = "/".join(part for part in text(40).split("/") if part not in (".", ".."))
    cases.append({
        "method": pick.choice(["GET", "HEAD", "PUT", "POST", "DELETE"]), "key": key or "k",
        "query": {text(6): text(12) for _ in range(pick.randint(0, 3))},
        "headers": {f"x-amz-meta-{pick.choice('abc')}": pick.choice(["v", "two  spaces", "a,b", "=%20"])} if pick.random() < 0.5 else {},
        "body": text(30) if pick.random() < 0.5 else "",
        "env": {"AWS_ACCESS_KEY_ID": "AKID" + str(pick.randint(0, 99)), "AWS_SECRET_ACCESS_KEY": pick.choice(["s+/=", "secret/key"]),
                "AWS_REGION": pick.choice(["us-east-1", "eu-central-1", "auto"]), "AWS_SESSION_TOKEN": pick.choice(["", "token/+=="])},
    })
ours = [json.loads(line) for line in subprocess.run(["node", sys.argv[1]], input=json.dumps(cases), capture_output=True, text=True, check=True).stdout.splitlines()]
wrong = 0
for case, found in zip(cases, ours, strict=True):
    env, headers = case["env"], {name: value for name, value in found["headers"].items() if name.startswith("x-amz-") and name not in ("x-amz-date", "x-amz-security-token")}
    if "host" in found["headers"]: headers["host"] = found["headers"]["host"]
    signed = found["headers"]["authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
    # the same headers are signed: botocore signs all that it is given
    for name in signed:
        if name not in headers and name in found["headers"] and name not in ("x-amz-date", "x-amz-security-token"): headers[name] = found["headers"][name]
    request = AWSRequest(method=case["method"], url=f"http://{found['host']}{found['path']}", headers=headers, data=case["body"].encode())
    at = datetime.datetime.strptime(found["headers"]["x-amz-date"], "%Y%m%dT%H%M%SZ")
    keys = Credentials(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], env["AWS_SESSION_TOKEN"] or None)
    with mock.patch("botocore.auth.get_current_datetime", return_value=at):
        S3SigV4Auth(keys, "s3", env["AWS_REGION"]).add_auth(request)
    path = "/bucket/" + quote(case["key"], safe="/-_.~")
    theirs = request.headers["Authorization"].replace(", ", ",")
    if found["headers"]["authorization"].replace(", ", ",") != theirs or found["path"].split("?")[0] != path:
        wrong += 1
        if wrong < 4: print(json.dumps(case, ensure_ascii=False), found["headers"]["authorization"], theirs, found["path"], path, sep="\n  ")
print(f"{count} requests, {wrong} signed otherwise")
sys.exit(wrong > 0)
