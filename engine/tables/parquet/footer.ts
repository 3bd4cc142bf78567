/** What the end of a Parquet file says of it: the schema, and where the columns of each group of rows are. */
import { Thrift } from './thrift.ts';

export type Kind = (typeof KINDS)[number];
export type Codec = (typeof CODECS)[number];

const KINDS = [
  'BOOLEAN',
  'INT32',
  'INT64',
  'INT96',
  'FLOAT',
  'DOUBLE',
  'BYTE_ARRAY',
  'FIXED_LEN_BYTE_ARRAY',
] as const;

const CODECS = ['UNCOMPRESSED', 'SNAPPY', 'GZIP', 'LZO', 'BROTLI', 'LZ4', 'ZSTD', 'LZ4_RAW'] as const;

const CONVERTED = [
  ...['UTF8', 'MAP', 'MAP_KEY_VALUE', 'LIST', 'ENUM', 'DECIMAL', 'DATE', 'TIME_MILLIS', 'TIME_MICROS'],
  ...['TIMESTAMP_MILLIS', 'TIMESTAMP_MICROS', 'UINT_8', 'UINT_16', 'UINT_32', 'UINT_64', 'INT_8', 'INT_16'],
  ...['INT_32', 'INT_64', 'JSON', 'BSON', 'INTERVAL'],
];

/** by the number of its field in the union */
const LOGICAL: { readonly [field: number]: string } = {
  ...{ 1: 'UTF8', 2: 'MAP', 3: 'LIST', 4: 'ENUM', 5: 'DECIMAL', 6: 'DATE', 7: 'TIME', 8: 'TIMESTAMP' },
  ...{ 10: 'INTEGER', 11: 'NULL', 12: 'JSON', 13: 'BSON', 14: 'UUID', 15: 'FLOAT16', 16: 'VARIANT' },
  ...{ 17: 'GEOMETRY', 18: 'GEOGRAPHY' },
};

/** digits behind the point of a second */
export type Digits = 3 | 6 | 9;

/** What the bytes of a column mean: its logical type, else its converted one, under one name. */
export interface Meaning {
  name: string;
  /** of a time */
  digits: Digits;
  isUtc: boolean;
  /** of a decimal */
  scale: number;
  /** of a whole number */
  isSigned: boolean;
}

export interface Element {
  name: string;
  /** of a leaf */
  kind: Kind | undefined;
  length: number;
  repetition: 'REQUIRED' | 'OPTIONAL' | 'REPEATED';
  children: number;
  meaning: Meaning | null;
}

export interface Chunk {
  path: readonly string[];
  kind: Kind | undefined;
  codec: Codec | undefined;
  values: number;
  /** where its pages are, in bytes of the file */
  from: number;
  to: number;
  /** it is encrypted, or in another file */
  isElsewhere: 'encrypted' | 'in another file' | null;
}

export interface Group {
  rows: number;
  chunks: readonly Chunk[];
}

export interface Footer {
  schema: readonly Element[];
  groups: readonly Group[];
}

/** Throws an Error where the bytes are no description. */
export function footerOf(bytes: Uint8Array): Footer {
  const thrift = new Thrift(bytes);
  let schema: Element[] = [];
  let groups: Group[] = [];
  thrift.struct(field => {
    if (field === 2) schema = thrift.list(() => elementOf(thrift));
    else if (field === 4) groups = thrift.list(() => groupOf(thrift));
    else return false;
    return true;
  });
  return { schema, groups };
}

function elementOf(thrift: Thrift): Element {
  const found: Element = {
    ...{ name: '', kind: undefined, length: 0, repetition: 'REQUIRED', children: 0, meaning: null },
  };
  let converted: Meaning | null = null;
  let scale = 0;
  thrift.struct(field => {
    if (field === 1) found.kind = KINDS[thrift.int()];
    else if (field === 2) found.length = thrift.int();
    else if (field === 3)
      found.repetition = (['REQUIRED', 'OPTIONAL', 'REPEATED'] as const)[thrift.int()] ?? 'REQUIRED';
    else if (field === 4) found.name = thrift.text();
    else if (field === 5) found.children = thrift.int();
    else if (field === 6) converted = convertedOf(CONVERTED[thrift.int()]);
    else if (field === 7) scale = thrift.int();
    else if (field === 10) found.meaning = logicalOf(thrift);
    else return false;
    return true;
  });
  found.meaning ??= converted && { ...(converted as Meaning), scale };
  return found;
}

const meaning = (name: string, more: Partial<Meaning> = {}): Meaning => ({
  ...{ name, digits: 3, isUtc: true, scale: 0, isSigned: true },
  ...more,
});

function convertedOf(name: string | undefined): Meaning | null {
  if (name === undefined) return null;
  const digits = name.endsWith('_MICROS') ? 6 : 3;
  if (name.startsWith('TIME')) return meaning(name.replace(/_.*/, ''), { digits });
  if (/^U?INT_/.test(name)) return meaning('INTEGER', { isSigned: !name.startsWith('U') });
  return meaning(name === 'MAP_KEY_VALUE' ? 'MAP' : name);
}

function logicalOf(thrift: Thrift): Meaning | null {
  let found: Meaning | null = null;
  thrift.struct(field => {
    const name = LOGICAL[field];
    if (name === undefined) return false;
    found = meaning(name);
    const made: Meaning = found;
    if (name === 'DECIMAL')
      thrift.struct(part => {
        if (part !== 1) return false;
        made.scale = thrift.int();
        return true;
      });
    else if (name === 'TIME' || name === 'TIMESTAMP') timeInto(made, thrift);
    else if (name === 'INTEGER')
      thrift.struct((part, type) => {
        if (part !== 2) return false;
        made.isSigned = thrift.flag(type);
        return true;
      });
    else return false;
    return true;
  });
  return found;
}

function timeInto(made: Meaning, thrift: Thrift): void {
  thrift.struct((part, type) => {
    if (part === 1) made.isUtc = thrift.flag(type);
    else if (part === 2)
      thrift.struct(unit => {
        if (unit < 1 || unit > 3) throw new Error('a time in an unknown unit');
        made.digits = (3 * unit) as Digits;
        return false;
      });
    else return false;
    return true;
  });
}

function groupOf(thrift: Thrift): Group {
  const found = { rows: 0, chunks: [] as Chunk[] };
  thrift.struct(field => {
    if (field === 1) found.chunks = thrift.list(() => chunkOf(thrift));
    else if (field === 3) found.rows = thrift.int();
    else return false;
    return true;
  });
  return found;
}

function chunkOf(thrift: Thrift): Chunk {
  let places = { data: 0, dictionary: 0, bytes: 0 };
  const found: Chunk = {
    ...{ path: [], kind: undefined, codec: undefined, values: 0, from: 0, to: 0, isElsewhere: null },
  };
  thrift.struct(field => {
    if (field === 3) places = describedInto(found, thrift);
    else if (field === 1) {
      if (thrift.text() !== '') found.isElsewhere = 'in another file';
    } else if (field === 8 || field === 9) {
      found.isElsewhere = 'encrypted';
      return false;
    } else return false;
    return true;
  });
  const { data, dictionary, bytes } = places;
  // 0 is what some writers say where there is no dictionary, and others say nothing where there is one
  found.from = dictionary > 0 && dictionary < data ? dictionary : data;
  found.to = found.from + bytes;
  return found;
}

function describedInto(found: Chunk, thrift: Thrift) {
  const places = { data: 0, dictionary: 0, bytes: 0 };
  thrift.struct(field => {
    if (field === 1) found.kind = KINDS[thrift.int()];
    else if (field === 3) found.path = thrift.list(() => thrift.text());
    else if (field === 4) found.codec = CODECS[thrift.int()];
    else if (field === 5) found.values = thrift.int();
    else if (field === 7) places.bytes = thrift.int();
    else if (field === 9) places.data = thrift.int();
    else if (field === 11) places.dictionary = thrift.int();
    else return false;
    return true;
  });
  return places;
}
