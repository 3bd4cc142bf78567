"""Holds what `fw ingest` reads of Parquet to what pyarrow reads of the same file, value by value. See parquet.sh."""

import base64
import datetime
import decimal
import json
import math
import os
import random
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FW, WORK = sys.argv[1].split(), sys.argv[2]
SAFE = 2**53 - 1
SEED = int(os.environ.get("SEED", random.randrange(2**31)))
rng = random.Random(SEED)
print(f"pyarrow {pa.__version__}, SEED={SEED}")
counts = {"files": 0, "values": 0}


def moment(value, unit, zone):
    text = str(np.datetime64(value, unit))
    if len(text) == 10:
        text += "T00:00:00"
    head, _, fraction = text.partition(".")
    return head + ("" if not fraction.strip("0") else "." + fraction) + zone


def clock(value, digits):
    seconds, fraction = divmod(value, 10**digits)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text if fraction == 0 else f"{text}.{fraction:0{digits}}"


DIGITS = {"s": 3, "ms": 3, "us": 6, "ns": 9}


def canon(scalar):
    """What an item has for a value: JSON within lists and structs."""
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_dictionary(kind):
        return canon(kind.value_type and pa.scalar(scalar.as_py(), kind.value_type))
    if pa.types.is_boolean(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return scalar.as_py()
    if pa.types.is_integer(kind):
        value = scalar.as_py()
        return value if abs(value) <= SAFE else str(value)
    if pa.types.is_floating(kind):
        value = float(scalar.as_py())
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if pa.types.is_decimal(kind):
        return format(scalar.as_py(), "f")
    if pa.types.is_date(kind):
        return scalar.as_py().isoformat()
    if pa.types.is_timestamp(kind):
        return moment(scalar.value, kind.unit, "Z" if kind.tz else "")
    if pa.types.is_time(kind):
        value = scalar.value * (1000 if kind.unit == "s" else 1)
        return clock(value, DIGITS[kind.unit])
    if pa.types.is_duration(kind):
        return scalar.value if abs(scalar.value) <= SAFE else str(scalar.value)
    if pa.types.is_map(kind):
        pairs = [[canon(entry["key"]), canon(entry["value"])] for entry in scalar.values] if scalar.values is not None else []
        keys = [key for key, _ in pairs]
        return dict(map(tuple, pairs)) if all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys) else pairs
    if pa.types.is_struct(kind):
        return {kind.field(at).name: canon(scalar[at]) for at in range(kind.num_fields)}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_list_view(kind):
        return [canon(one) for one in scalar.values]
    if kind == pa.uuid():
        return str(scalar.as_py())
    return base64.b64encode(scalar.as_py()).decode()


def is_same(text, value):
    if isinstance(value, str):
        return text == value
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, float):
        return float(text) == value
    if isinstance(value, int):
        return text == str(value)
    return json.loads(text) == value


def ingest(*args):
    ran = subprocess.run([*FW, "ingest", "--prompt", "p", *args], capture_output=True, cwd=WORK)
    return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines()], ran.stderr.decode()


def hold(name, path, table=None, also=()):
    """Each value of `path` (within WORK) as pyarrow has it."""
    table = table if table is not None else pq.read_table(os.path.join(WORK, path), partitioning=None)
    code, items, err = ingest(path, *also)
    assert code == 0, f"{name}: exit {code}: {err}"
    assert len(items) == table.num_rows, f"{name}: {len(items)} items of {table.num_rows} rows"
    for column in table.column_names:
        cells = table.column(column)
        for at, item in enumerate(items):
            value = canon(cells[at])
            found = item["input"].get(column)
            counts["values"] += 1
            if value is None:
                assert found is None, f"{name}: row {at}, {column}: {found!r}, not null"
            else:
                assert found is not None and is_same(found, value), f"{name}: row {at}, {column}: {found!r}, not {value!r}"
    counts["files"] += 1


def write(name, columns, rows=None, **how):
    rows = rows if rows is not None else len(next(iter(columns.values())))
    whole = {"k": pa.array([f"k-{n}" for n in range(rows)]), "p": pa.array([f'ask {n}: "ü\\"\n' for n in range(rows)]), **columns}
    pq.write_table(pa.table(whole), os.path.join(WORK, f"{name}.parquet"), **how)
    try:
        pq.read_table(os.path.join(WORK, f"{name}.parquet"))
        table = None
    except pa.ArrowInvalid:  # pyarrow reads no nulls in lists of a fixed size that it writes
        table = pa.table(whole)
    hold(name, f"{name}.parquet", table, also=["--id", "k"])
    # without a column of ids, and by way of an object for each row
    if rows > 0 and rows < 200:
        code, items, err = ingest(f"{name}.parquet", "--samples", "1")
        assert code == 0, err
        with open(os.path.join(WORK, "t.liquid"), "w") as file:
            file.write("{{ p }}")
        slow = subprocess.run([*FW, "ingest", "--template", "t.liquid", f"{name}.parquet"], capture_output=True, cwd=WORK)
        fast = subprocess.run([*FW, "ingest", "--prompt", "p", f"{name}.parquet"], capture_output=True, cwd=WORK)
        assert slow.stdout == fast.stdout, f"{name}: its lines by the two ways differ"


def holes(values, share=0.2):
    return [None if rng.random() < share else value for value in values]


N = 150


def ints(bits, signed):
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    edges = [low, high, 0, 1, low + 1, high - 1, min(high, SAFE), min(high, SAFE + 1), max(low, -SAFE), max(low, -SAFE - 1)]
    return holes(edges + [rng.randint(low, high) for _ in range(N - len(edges))])


def words():
    some = ["", "a", "naïve", 'q"q', "back\\slash", "line\nend\r\t\x00\x1f\x7f", "日本語", "😀" * 3, "x" * 300, "x" * 70_000, " ", "\u2028"]
    return holes(some + ["w" + str(rng.randrange(50)) for _ in range(N - len(some))])


def decimals(digits, scale):
    ctx = decimal.Context(prec=80)
    edges = [10**digits - 1, -(10**digits - 1), 0, 1, -1]
    return holes([decimal.Decimal(v).scaleb(-scale, ctx) for v in edges + [rng.randint(-(10**digits) + 1, 10**digits - 1) for _ in range(N - 5)]])


def moments(unit):
    per = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    far = 250 * 365 * 86400
    return holes([0, -1, 1, -per, per, 86400 * per - 1] + [rng.randint(-far * per, far * per) for _ in range(N - 6)])


def all_types():
    f16 = np.array([0, -0.5, 65504, 6e-8, np.inf, -np.inf, np.nan, 0.1] * (N // 8 + 1), dtype=np.float16)[:N]
    columns = {f"i{bits}": pa.array(ints(bits, True), pa.int64() if bits == 64 else getattr(pa, f"int{bits}")()) for bits in (8, 16, 32, 64)}
    columns |= {f"u{bits}": pa.array(ints(bits, False), getattr(pa, f"uint{bits}")()) for bits in (8, 16, 32, 64)}
    doubles = holes([0.0, -0.0, 5e-324, 1.7976931348623157e308, math.nan, math.inf, -math.inf, 0.1, 1e21, 1e-7] + [rng.uniform(-1e9, 1e9) for _ in range(N - 10)])
    columns |= {"f16": pa.array(f16), "f64": pa.array(doubles), "f32": pa.array([None if v is None else np.float32(v) for v in doubles], pa.float32())}
    columns["bool"] = pa.array(holes([rng.random() < 0.5 for _ in range(N)]))
    columns["null"] = pa.nulls(N)
    for digits, scale in [(1, 0), (9, 2), (10, 5), (18, 18), (19, 4), (38, 10), (38, 38)]:
        columns[f"d128_{digits}_{scale}"] = pa.array(decimals(digits, scale), pa.decimal128(digits, scale))
    columns["d32"] = pa.array(decimals(7, 3), pa.decimal32(7, 3))
    columns["d64"] = pa.array(decimals(15, 3), pa.decimal64(15, 3))
    columns["d256"] = pa.array(decimals(76, 20), pa.decimal256(76, 20))
    columns["date32"] = pa.array(holes([rng.randint(-700_000, 2_900_000) for _ in range(N)]), pa.int32()).cast(pa.date32())
    columns["date64"] = columns["date32"].cast(pa.date64())
    for unit in ("s", "ms", "us", "ns"):
        columns[f"ts_{unit}"] = pa.array(moments(unit), pa.timestamp(unit))
        columns[f"tz_{unit}"] = pa.array(moments(unit), pa.timestamp(unit, "Europe/Berlin"))
        columns[f"dur_{unit}"] = pa.array(moments(unit), pa.duration(unit))
    columns["t32s"] = pa.array(holes([rng.randrange(86400) for _ in range(N)]), pa.int32()).cast(pa.time32("s"))
    columns["t32ms"] = pa.array(holes([rng.randrange(86400_000) for _ in range(N)]), pa.int32()).cast(pa.time32("ms"))
    columns["t64us"] = pa.array(holes([rng.randrange(86400 * 10**6) for _ in range(N)]), pa.int64()).cast(pa.time64("us"))
    columns["t64ns"] = pa.array(holes([rng.randrange(86400 * 10**9) for _ in range(N)]), pa.int64()).cast(pa.time64("ns"))
    columns |= {"s": pa.array(words()), "ls": pa.array(words(), pa.large_string()), "sv": pa.array(words(), pa.string_view())}
    columns["b"] = pa.array(holes([rng.randbytes(rng.randrange(20)) for _ in range(N)]))
    columns["lb"] = columns["b"].cast(pa.large_binary())
    columns["fb"] = pa.array(holes([rng.randbytes(5) for _ in range(N)]), pa.binary(5))
    columns["cat"] = pa.array(holes([rng.choice(["red", "gr\"een", "blå"]) for _ in range(N)])).dictionary_encode()
    columns["icat"] = pa.array(holes([rng.choice([1, 2, 3]) for _ in range(N)])).dictionary_encode()
    columns["with.dot"] = pa.array(ints(8, True), pa.int8())
    columns["ünï 日本"] = pa.array(ints(8, True), pa.int8())
    columns["7"] = pa.array(ints(8, True), pa.int8())
    return columns


def deep(depth):
    kind = rng.randrange(6) if depth > 0 else 5
    if kind == 0:
        return pa.list_(deep(depth - 1))
    if kind == 1:
        return pa.list_(deep(depth - 1), 2)
    if kind == 2:
        return pa.map_(pa.string() if rng.random() < 0.7 else pa.int32(), deep(depth - 1))
    if kind in (3, 4):
        return pa.struct([pa.field(f"f{n}", deep(depth - 1), nullable=rng.random() < 0.8) for n in range(rng.randrange(1, 4))])
    return rng.choice([pa.int64(), pa.string(), pa.float64(), pa.bool_(), pa.decimal128(9, 2), pa.timestamp("us"), pa.int8()])


def value_of(kind, nullable=True):
    if nullable and rng.random() < 0.2:
        return None
    if pa.types.is_fixed_size_list(kind):
        return [value_of(kind.value_type) for _ in range(2)]
    if pa.types.is_list(kind):
        return [value_of(kind.value_type) for _ in range(rng.choice([0, 1, 2, 5]))]
    if pa.types.is_map(kind):
        keys = rng.sample(range(9), rng.choice([0, 1, 3]))
        return [(f"k{key}" if pa.types.is_string(kind.key_type) else key, value_of(kind.item_type)) for key in keys]
    if pa.types.is_struct(kind):
        return {kind.field(at).name: value_of(kind.field(at).type, kind.field(at).nullable) for at in range(kind.num_fields)}
    if pa.types.is_decimal(kind):
        return decimal.Decimal(rng.randrange(-(10**8), 10**8)).scaleb(-2)
    if pa.types.is_timestamp(kind):
        return datetime.datetime(1960, 1, 1) + datetime.timedelta(microseconds=rng.randrange(10**16))
    if pa.types.is_string(kind):
        return rng.choice(["", "x", "ü\"\n", "word"])
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_floating(kind):
        return rng.choice([0.5, -1.25, math.nan, math.inf])
    return rng.randrange(-100, 100)


types = all_types()
write("types", types)
write("types-v1", types, version="1.0", coerce_timestamps="us", allow_truncated_timestamps=True)
write("types-plain", types, use_dictionary=False)
write("types-page2", types, data_page_version="2.0", data_page_size=100)
write("types-small", types, data_page_size=64, row_group_size=7, write_page_index=True, write_page_checksum=True)
write("types-nostat", types, write_statistics=False, dictionary_pagesize_limit=64)
write("types-bool-rle", {"bool": types["bool"]}, data_page_version="2.0")
write("int96", {"ts": types["ts_ns"], "old": types["ts_us"]}, use_deprecated_int96_timestamps=True)
write("coerced", {"ts": types["ts_ns"]}, coerce_timestamps="ms", allow_truncated_timestamps=True)
write("int-decimals", {name: types[name] for name in types if name.startswith("d128")}, store_decimal_as_integer=True)
for codec in ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]:
    for version in ["1.0", "2.0"]:
        write(f"codec-{codec}-{version[0]}", types, compression=codec, data_page_version=version)
ENCODINGS = {
    "DELTA_BINARY_PACKED": ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "ts_us", "ts_ns", "date32", "t64us", "dur_ns"],
    "DELTA_LENGTH_BYTE_ARRAY": ["s", "ls", "b"],
    "DELTA_BYTE_ARRAY": ["s", "ls", "b", "fb", "d128_38_10", "d256"],
    "BYTE_STREAM_SPLIT": ["f16", "f32", "f64", "i32", "i64", "u32", "u64", "fb", "d128_38_10", "ts_ns"],
    "PLAIN": list(types),
    "RLE": ["bool"],
}
for encoding, names in ENCODINGS.items():
    for version in ["1.0", "2.0"]:
        chosen = {name: types[name] for name in names if name != "null" and "." not in name}
        how = {name: encoding for name in chosen} if encoding != "RLE" else {"bool": "RLE"}
        write(f"enc-{encoding}-{version[0]}", chosen, use_dictionary=False, column_encoding=how, data_page_version=version, data_page_size=512)
many = 30_000
write("many", {"v": pa.array(ints(64, True) * (many // N)), "f": pa.array(["t%d" % (n // 3) for n in range(many)]), "l": pa.array([[n] * (n % 4) for n in range(many)])}, data_page_size=4096, dictionary_pagesize_limit=20_000)
write("many-groups", {"v": pa.array(range(3000)), "l": pa.array([[n] * (n % 4) for n in range(3000)])}, row_group_size=11)
write("delta-many", {"v": pa.array([n * n * (-1) ** n for n in range(many)]), "s": pa.array([f"prefix-{n:08}" for n in range(many)])}, use_dictionary=False, column_encoding={"v": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY"})
write("bloom", {"s": types["s"]}, **({"bloom_filter_options": {"s": {"ndv": 100, "fpp": 0.01}}} if "bloom_filter_options" in (pq.write_table.__doc__ or "") else {}))
for n in range(40):
    kind = deep(4)
    values = [value_of(kind) for _ in range(60)]
    write(f"deep-{n}", {"v": pa.array(values, kind)}, data_page_size=rng.choice([32, 1 << 20]), data_page_version=rng.choice(["1.0", "2.0"]), row_group_size=rng.choice([9, 1000]), compression=rng.choice(["snappy", "none", "zstd"]))
long_lists = [None if n % 7 == 3 else [[m, None] for m in range(n % 90)] for n in range(200)]
write("lists-over-pages", {"v": pa.array(long_lists, pa.list_(pa.list_(pa.int64())))}, data_page_size=50, use_dictionary=False)
write("compliant-off", {"v": pa.array([[1, None], None, [], [3]], pa.list_(pa.int64()))}, use_compliant_nested_type=False)

# empty groups, and an empty file among others
schema = pa.schema([("p", pa.string()), ("v", pa.list_(pa.int32()))])
with pq.ParquetWriter(os.path.join(WORK, "gaps.parquet"), schema) as writer:
    for rows in [0, 2, 0, 3, 0]:
        writer.write_table(pa.table({"p": [f"r{counts['files']}-{rows}-{n}" for n in range(rows)], "v": [[n] for n in range(rows)]}, schema))
hold("gaps", "gaps.parquet")
pq.write_table(schema.empty_table(), os.path.join(WORK, "empty.parquet"))
code, items, err = ingest("empty.parquet")
assert code == 65 and "without any" in err, err
code, items, err = ingest("empty.parquet", "gaps.parquet")
assert code == 0 and len(items) == 5, err


def refused(name, path, *words):
    code, items, err = ingest(path)
    assert code == 65 and all(word in err for word in words), f"{name}: exit {code}: {err}"
    counts["files"] += 1


pq.write_table(pa.Table.from_arrays([pa.array(["x"]), pa.array([1])], ["p", "p"]), os.path.join(WORK, "twice.parquet"))
refused("twice", "twice.parquet", "'p' twice")
try:
    import pyarrow.parquet.encryption as pe

    class Kms(pe.KmsClient):
        def __init__(self, config):
            pe.KmsClient.__init__(self)

        def wrap_key(self, key, name):
            return base64.b64encode(key)

        def unwrap_key(self, key, name):
            return base64.b64decode(key)

    factory = pe.CryptoFactory(Kms)
    for plain in [True, False]:
        config = pe.EncryptionConfiguration(footer_key="f", column_keys={"c": ["p"]}, plaintext_footer=plain)
        properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
        with pq.ParquetWriter(os.path.join(WORK, "secret.parquet"), pa.schema([("p", pa.string())]), encryption_properties=properties) as writer:
            writer.write_table(pa.table({"p": ["x"]}))
        refused(f"encrypted, plain footer {plain}", "secret.parquet", "encrypted")
except ImportError:
    print("no encryption in this pyarrow: left out")
print(f"pyarrow: {counts['files']} files, {counts['values']:,} values, all equal")

# files of other writers, as pyarrow reads them
plain = {
    "p": [f"ask {n}" for n in range(500)],
    "i": [None if n % 7 == 0 else n * 10**9 for n in range(500)],
    "f": [n / 3 for n in range(500)],
    "b": [n % 3 == 0 for n in range(500)],
    "t": [datetime.datetime(1950, 1, 1) + datetime.timedelta(days=97 * n, microseconds=n) for n in range(500)],
    "d": [datetime.date(1900 + n % 200, 1 + n % 12, 1 + n % 28) for n in range(500)],
    "s": [None if n % 5 == 0 else "ü" * (n % 9) for n in range(500)],
}
before = dict(counts)
try:
    import duckdb

    for version in ["v1", "v2"]:
        for codec in ["uncompressed", "snappy", "gzip", "zstd", "lz4_raw", "brotli"]:
            path = f"duck-{version}-{codec}.parquet"
            duckdb.sql(
                f"""COPY (SELECT 'ask ' || n AS p, n::UTINYINT AS u8, (n * 8000000)::UINTEGER AS u32, n::UBIGINT * 9007199254740993 AS u64, -n::HUGEINT AS huge,
                    n / 3 AS f, (n / 7)::FLOAT AS f32, n % 2 = 0 AS b, (n / 100)::DECIMAL(9, 2) AS d9, (n / 100)::DECIMAL(38, 9) AS d38, DATE '1890-01-01' + n::INTEGER AS d,
                    TIME '01:02:03.5' AS t, TIMESTAMP '1960-01-01' + to_microseconds(n * 1234567) AS ts, (TIMESTAMP '1960-01-01' + to_days(n::INTEGER))::TIMESTAMPTZ AS tz,
                    ('x' || n)::BLOB AS raw, CASE WHEN n % 3 = 0 THEN NULL ELSE [n, NULL, n + 1] END AS l, {{'a': n, 'b': [{{'c': n::VARCHAR}}]}} AS st,
                    MAP {{'k' || n: n, 'z': NULL}} AS m, repeat('wörd', (n % 90)::INTEGER) AS s, CASE WHEN n % 2 = 0 THEN 'yes' ELSE 'no' END AS cat
                    FROM range(255) r(n)) TO '{WORK}/{path}' (FORMAT parquet, COMPRESSION {codec}, PARQUET_VERSION {version}, ROW_GROUP_SIZE 100)"""
            )
            hold(f"DuckDB {duckdb.__version__} {path}", path)
except ImportError:
    print("no duckdb: left out")
try:
    import polars

    frame = polars.DataFrame(plain).with_columns(polars.col("s").cast(polars.Categorical).alias("cat"), polars.col("i").cast(polars.Int64).implode().over("b").alias("l"), polars.struct("i", "s").alias("st"), (polars.col("f") * 1e6).cast(polars.Duration("us")).alias("dur"))
    for codec in ["uncompressed", "snappy", "gzip", "zstd", "lz4", "brotli"]:
        frame.drop("dur").write_parquet(os.path.join(WORK, f"polars-{codec}.parquet"), compression=codec, row_group_size=120)
        hold(f"polars {polars.__version__} {codec}", f"polars-{codec}.parquet")
except ImportError:
    print("no polars: left out")
try:
    import pandas

    frame = pandas.DataFrame(plain)
    frame["cat"] = frame["s"].astype("category")
    frame["tz"] = frame["t"].dt.tz_localize("UTC")
    frame.to_parquet(os.path.join(WORK, "pandas.parquet"))
    hold(f"pandas {pandas.__version__}", "pandas.parquet")
    frame.set_index("i").to_parquet(os.path.join(WORK, "pandas-index.parquet"))
    hold("pandas, with an index", "pandas-index.parquet")
    import fastparquet

    small = frame.drop(columns=["d", "tz"])
    for codec in ["UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"]:
        for times in ["int64", "int96"]:
            fastparquet.write(os.path.join(WORK, f"fast-{codec}-{times}.parquet"), small, compression=codec, times=times, row_group_offsets=200)
            hold(f"fastparquet {fastparquet.__version__} {codec} {times}", f"fast-{codec}-{times}.parquet")
except ImportError as missing:
    print(f"{missing}: left out")
print(f"other writers: {counts['files'] - before['files']} files, {counts['values'] - before['values']:,} values, all equal")

# Spark's layout: parts in folders named for values, some of them empty, beside files that are none
os.makedirs(os.path.join(WORK, "spark/year=2025"))
os.makedirs(os.path.join(WORK, "spark/year=2026"))
parts = [("2025/part-00000", 3), ("2025/part-00001", 0), ("2026/part-00000", 2)]
for path, rows in parts:
    at = os.path.join(WORK, f"spark/year={path}-c000.snappy.parquet")
    pq.write_table(pa.table({"p": pa.array([f"{path}-{n}" for n in range(rows)], pa.string())}), at, flavor="spark")
    folder, name = os.path.split(at)
    open(os.path.join(folder, f".{name}.crc"), "w").close()
open(os.path.join(WORK, "spark/_SUCCESS"), "w").close()
code, items, err = ingest("spark/*/*.parquet")
assert code == 0 and len(items) == 5, f"Spark's layout: exit {code}: {err}"
print(f"Spark's layout: {len(items)} rows of {len(parts)} parts\n{err}")

# fw export, read by each
lines = [
    {"id": f"i-{n}", "row": n + 1, "input": {"q": "ü\n\"" * (n % 40)}, "flag": n % 2 == 0, "n": n * 2**40, "x": n / 3, "list": [n, None], "some": None if n % 3 else "s"}
    for n in range(2000)
]
with open(os.path.join(WORK, "items.ndjson"), "w") as file:
    file.writelines(json.dumps(line) + "\n" for line in lines)
with open(os.path.join(WORK, "out.parquet"), "wb") as file:
    subprocess.run([*FW, "export", "--format", "parquet", "items.ndjson"], stdout=file, cwd=WORK, check=True)
out = os.path.join(WORK, "out.parquet")
readers = {"pyarrow": lambda: pq.read_table(out).to_pylist()}
if "duckdb" in sys.modules:
    readers["DuckDB"] = lambda: duckdb.sql(f"FROM '{out}'").to_arrow_table().to_pylist()
if "polars" in sys.modules:
    readers["polars"] = lambda: polars.read_parquet(out).to_dicts()
if "pandas" in sys.modules:
    readers["pandas"] = lambda: pandas.read_parquet(out, dtype_backend="pyarrow").astype(object).where(lambda frame: frame.notna(), None).to_dict("records")
if "fastparquet" in sys.modules:
    readers["fastparquet"] = lambda: fastparquet.ParquetFile(out).to_pandas().astype(object).where(lambda frame: frame.notna(), None).to_dict("records")
for name, read in readers.items():
    rows = read()
    assert len(rows) == len(lines), f"{name}: {len(rows)} rows"
    for row, line in zip(rows, lines):
        want = {"id": line["id"], "row": line["row"], "input.q": line["input"]["q"], "flag": line["flag"], "n": line["n"], "x": line["x"], "some": line["some"]}
        for key, value in want.items():
            assert row[key] == value, f"{name}: {line['id']}: {key}: {row[key]!r}, not {value!r}"
        assert json.loads(row["list"]) == line["list"], f"{name}: {row['list']!r}"
    print(f"fw export, by {name}: {len(rows)} rows, all equal")
