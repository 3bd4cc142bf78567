"""The Parquet that `fw export` writes (engine/tables/export/write-parquet.ts), and no other: flat columns, gzip, pages of version 2.

For who has pandas and neither pyarrow nor polars, which read it sooner.
"""

from __future__ import annotations

import array
import struct
import sys
import zlib
from typing import Any, Dict, Iterator, List, Tuple

Fields = Dict[int, Any]

# by their numbers in parquet.thrift
BOOLEAN, INT64, DOUBLE, TEXT = 0, 2, 5, 6
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8
DICTIONARY_PAGE, DATA_PAGE_V2 = 2, 3
GZIP = 2


def columns_of(data: bytes) -> List[Tuple[str, str, list]]:
    """Name, type ("boolean", "integer", "number" or "text") and values of each column; None for null."""
    (length,) = struct.unpack("<I", data[-8:-4])
    footer = Thrift(data, len(data) - 8 - length).struct()
    kinds = {BOOLEAN: "boolean", INT64: "integer", DOUBLE: "number", TEXT: "text"}
    made = [(element[4].decode(), kinds[element[1]], []) for element in footer[2][1:]]
    for group in footer.get(4, ()):
        for (_name, _kind, values), chunk in zip(made, group[1]):
            values.extend(_chunk(data, chunk[3]))
    return made


def _chunk(data: bytes, chunk: Fields) -> Iterator[Any]:
    kind, codec, left = chunk[1], chunk[4], chunk[5]
    if codec != GZIP:
        raise ValueError(f"expected pages of gzip, found codec {codec}")
    at = chunk.get(11, chunk[9])
    dictionary: list = []
    while left > 0:
        head = Thrift(data, at)
        page = head.struct()
        at = head.at + page[3]
        body = data[head.at : at]
        if page[1] == DICTIONARY_PAGE:
            dictionary = _plain(kind, zlib.decompress(body, 31), page[7][1])
            continue
        about = page[8]
        count, nulls, _rows, encoding, levels = (about[field] for field in range(1, 6))
        values = body[levels:]
        values = _values(kind, encoding, zlib.decompress(values, 31) if values else b"", count - nulls, dictionary)
        left -= count
        if nulls == 0:
            yield from values
            continue
        present = iter(values)
        for level in _runs(body[:levels], 1, count):
            yield next(present) if level else None


def _values(kind: int, encoding: int, page: bytes, count: int, dictionary: list) -> list:
    if encoding == PLAIN:
        return _plain(kind, page, count)
    if encoding == RLE_DICTIONARY:
        return [dictionary[at] for at in _runs(page[1:], page[0], count)] if count else []
    if encoding == RLE and kind == BOOLEAN:
        return [bit == 1 for bit in _runs(page[4:], 1, count)]
    raise ValueError(f"expected an encoding that fw export writes, found {encoding}")


def _plain(kind: int, page: bytes, count: int) -> list:
    if kind == BOOLEAN:
        return [page[at >> 3] >> (at & 7) & 1 == 1 for at in range(count)]
    if kind != TEXT:
        numbers = array.array("q" if kind == INT64 else "d", page[: 8 * count])
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers.tolist()
    texts = []
    at = 0
    for _text in range(count):
        end = at + 4 + int.from_bytes(page[at : at + 4], "little")
        texts.append(page[at + 4 : end].decode())
        at = end
    return texts


def _runs(packed: bytes, width: int, count: int) -> List[int]:
    """The hybrid of Parquet: runs of one value, and groups of eight values of `width` bits."""
    if width == 0:
        return [0] * count
    made: List[int] = []
    at = 0
    mask = (1 << width) - 1
    while len(made) < count:
        head, at = _varint(packed, at)
        if head & 1:
            end = at + (head >> 1) * width
            for begin in range(at, end, width):
                bits = int.from_bytes(packed[begin : begin + width], "little")
                made.extend(bits >> (width * place) & mask for place in range(8))
        else:
            end = at + (width + 7) // 8
            made.extend([int.from_bytes(packed[at:end], "little")] * (head >> 1))
        at = end
    return made[:count]


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


class Thrift:
    """The compact protocol: a struct is a dict of its fields by number."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def struct(self) -> Fields:
        fields: Fields = {}
        number = 0
        while True:
            head = self.data[self.at]
            self.at += 1
            if head == 0:
                return fields
            number = number + (head >> 4) if head >> 4 else self._int()
            fields[number] = self._value(head & 15)

    def _int(self) -> int:
        value, self.at = _varint(self.data, self.at)
        return (value >> 1) ^ -(value & 1)

    def _value(self, kind: int) -> Any:
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            self.at += 1
            return self.data[self.at - 1]
        if kind in (4, 5, 6):
            return self._int()
        if kind == 7:
            self.at += 8
            return struct.unpack("<d", self.data[self.at - 8 : self.at])[0]
        if kind == 8:
            length, self.at = _varint(self.data, self.at)
            self.at += length
            return self.data[self.at - length : self.at]
        if kind in (9, 10):
            head = self.data[self.at]
            self.at += 1
            size = head >> 4
            if size == 15:
                size, self.at = _varint(self.data, self.at)
            return [self._element(head & 15) for _element in range(size)]
        if kind == 12:
            return self.struct()
        raise ValueError(f"expected a file of fw export, found the kind {kind} in its description")

    def _element(self, kind: int) -> Any:
        """In a list a boolean is a byte; in a struct it is in the head of its field."""
        if kind in (1, 2):
            self.at += 1
            return self.data[self.at - 1] == 1
        return self._value(kind)
