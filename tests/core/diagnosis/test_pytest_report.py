"""The first test that failed, in each of pytest's forms (9.0, without empty lines)."""

from __future__ import annotations

import pytest

from autoresearch.core.diagnosis.pytest_report import first_failed_test

LONG = """
.FF                                                                      [100%]
=================================== FAILURES ===================================
____________________________________ test_a ____________________________________
    def test_a():
>       assert lib.a.f() == 2
tests/test_a.py:7:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _
    def f():
>       return zero + 1
E       NameError: name 'zero' is not defined
lib/a.py:2: NameError
____________________________________ test_b ____________________________________
>       assert x == [1,3], 'bad'
E       AssertionError: bad
tests/test_a.py:11: AssertionError
=========================== short test summary info ============================
FAILED tests/test_a.py::test_a - NameError: name 'zero' is not defined
"""
BARE = """
_________________________ test_the_score_is_a_share __________________________
>       assert 0.0 <= knobs.score(0.1) <= 1.0
E       assert 2.3 <= 1.0
E        +  where 2.3 = <function score at 0x7f>(0.1)
tests/test_knobs.py:6: AssertionError
"""
WITHIN = """
=================================== FAILURES ===================================
__________________________________ test_loads __________________________________
tests/test_load.py:4: in test_loads
    load("x")
lib/load.py:9: in load
    return torch.load(path)
/env/lib/python3.11/site-packages/torch/serialization.py:1425: in load
    raise FileNotFoundError(path)
E   FileNotFoundError: x
__________________________________ test_other __________________________________
E   ValueError: another
"""
COLLECTED = """
==================================== ERRORS ====================================
_______________________ ERROR collecting tests/test_c.py _______________________
/env/lib/python3.11/site-packages/_pytest/python.py:507: in importtestmodule
    mod = import_path(
<frozen importlib._bootstrap>:690: in _load_unlocked
    ???
tests/test_c.py:1: in <module>
    import lib.syn
E     File "/work/lib/syn.py", line 1
E       def f(:
E             ^
E   SyntaxError: invalid syntax
=========================== short test summary info ============================
ERROR tests/test_c.py
"""


@pytest.mark.parametrize(
    ("report", "line", "where", "test"),
    [
        (LONG, "NameError: name 'zero' is not defined", "lib/a.py:2", "test_a"),
        (BARE, "AssertionError: assert 2.3 <= 1.0", "tests/test_knobs.py:6", "test_the_score_is_a_share"),
        (WITHIN, "FileNotFoundError: x", "lib/load.py:9 in load", "test_loads"),
        (COLLECTED, "SyntaxError: invalid syntax", "/work/lib/syn.py:1", "ERROR collecting tests/test_c.py"),
    ],
)
def test_its_exception_its_place_and_its_name(report: str, line: str, where: str, test: str) -> None:
    found = first_failed_test(report.strip().splitlines())
    assert found is not None
    failure, told = found
    assert (failure.line, str(failure.frame), failure.note) == (line, where, test)
    assert "another" not in "".join(told) and "test_b" not in "".join(told)


@pytest.mark.parametrize("text", ["", "3 passed", "____ x ____\nlib/a.py:3: in f", "E   ValueError: x", LONG[:90]])
def test_what_is_no_report_of_a_failed_test(text: str) -> None:
    assert first_failed_test(text.splitlines()) is None
