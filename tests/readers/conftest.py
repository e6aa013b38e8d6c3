"""An encoder of TensorBoard event files, made by hand from the documentation of TFRecord and protobuf."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

Encode = Callable[..., bytes]


def crc32c(data: bytes) -> int:
    """Bit by bit, unlike the reader's table."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 * (crc & 1))
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def record(data: bytes) -> bytes:
    head = struct.pack("<Q", len(data))
    return head + masked(head) + data + masked(data)


def event(step: int | None, *values: bytes, after: bytes = b"") -> bytes:
    """An Event: wall_time, step (protobuf leaves 0 out), a summary of these values, and what else there is."""
    body = b"\x09" + struct.pack("<d", 1771000000.25)
    body += b"" if not step else b"\x10" + varint(step)
    return record(body + after + (field(5, b"".join(field(1, v) for v in values)) if values else b""))


def simple(tag: str, value: float) -> bytes:
    return field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)


def tensor(tag: str, body: bytes) -> bytes:
    return field(1, tag.encode()) + field(9, field(1, field(1, b"scalars"))) + field(8, body)


VERSION = record(b"\x09" + struct.pack("<d", 1.0) + field(3, b"brain.Event:2"))


def scalars(rows: list[tuple[int, str, float]]) -> bytes:
    """A whole event file as torch's SummaryWriter writes it: one scalar an event."""
    return VERSION + b"".join(event(step, simple(tag, value)) for step, tag, value in rows)


@pytest.fixture
def encode() -> dict[str, Encode]:
    return {f.__name__: f for f in (crc32c, varint, field, record, event, simple, tensor, scalars)}
