"""Protobuf: parse the fields of a message without its schema (protobuf.dev/programming-guides/encoding)."""

from __future__ import annotations

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Fields = list[tuple[int, int, int, int]]  # number, wire type, start and end of the content


def fields_of(data: bytes, at: int, end: int) -> Fields:
    """The fields of one message; for a varint, its value replaces the start. IndexError if the message is torn."""
    found: Fields = []
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = _varint(data, at)
            found.append((key >> 3, kind, value, at))
            continue
        if kind == BYTES:
            length, at = _varint(data, at)
        elif kind in (FIXED32, FIXED64):
            length = 4 if kind == FIXED32 else 8
        else:
            raise ValueError("a wire type that is no longer used")
        if at + length > end:
            raise IndexError("a field that ends behind its message")
        found.append((key >> 3, kind, at, at + length))
        at += length
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while shift < 70:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
    raise ValueError("a number that does not end")
