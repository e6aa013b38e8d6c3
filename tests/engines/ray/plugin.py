"""Fixtures: `ray_head`, a Ray for one test file; `fake_ray`, a server that answers as Ray's head does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.ray.fake import FakeRay
from tests.engines.ray.head import Head, missing


@pytest.fixture(scope="session")
def ray_is_there() -> None:
    """For extended tests with a real Ray, which is a few hundred megabytes that `make ray` installs."""
    if why := missing():
        pytest.skip(f"a Ray head needs the environment that `make ray` installs from PyPI: {why}")


@pytest.fixture(scope="module")
def ray_head(ray_is_there: None) -> Iterator[Head]:
    """A head that takes jobs, with eight GPUs that nobody has seen; none of it is left after the file."""
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
