"""Fixtures: `ray_head`, a Ray for one test file; `fake_ray`, a server that answers as Ray's head does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.ray.fake import FakeRay
from tests.engines.ray.head import WHY_NOT, Head, there


@pytest.fixture(scope="module")
def ray_head() -> Iterator[Head]:
    """A head that takes jobs, with eight GPUs that nobody has seen; none of it is left after the file."""
    if not there():
        pytest.skip(WHY_NOT)
    head = Head(gpus=8)
    try:
        head.start()
        head.takes_jobs()
        yield head
    finally:
        head.end()


@pytest.fixture
def fake_ray() -> Iterator[FakeRay]:
    """See `tests/engines/ray/fake.py`."""
    one = FakeRay()
    try:
        yield one
    finally:
        one.close()
