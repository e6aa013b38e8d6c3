"""From the registration to the last word: what is in git before what, and where a plan goes after each stage."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from autoresearch.errors import ConflictError, NotFoundError, UsageError
from autoresearch.lab.plans import register, stages
from autoresearch.lab.plans.plan_dir import add_record, find_plan, read_view, tree_of
from autoresearch.lab.plans.run_stages import Stopped, in_pursuit, pursue, pursue_alone
from autoresearch.records.rundir import locked

pytestmark = pytest.mark.system

PROVED = (
    "confirmed, task_pass_rate@1 0.59, +0.09 against the baseline "
    "(90 % interval +0.02 to +0.16; 5 fresh runs against 5, none failed)"
)
GOOD = {"lr-high": ("confirmed", 0.6), "lr-low": ("discard", 0.49)}


def run(yard: Any, plan_dir: Any) -> Stopped:
    with in_pursuit(plan_dir):
        return pursue(plan_dir, yard.parts, yard.said.append)


def test_two_stages_to_the_end(yard: Any) -> None:
    yard.pictures()
    yard.results = {"screen": GOOD, "refine": {"lr-2": ("keep", 0.7)}}
    plan_dir = yard.approved()
    stopped = run(yard, plan_dir)
    assert (stopped.state, stopped.reason) == ("ended", "refine: More is better.")
    assert yard.records(plan_dir) == ["registered", "approved", "begun", "concluded", "begun", "concluded", "ended"]
    assert yard.begun == ["lr-screen", "lr-refine"]
    first, second = (run.conclusion for run in read_view(plan_dir).runs)
    assert first is not None and second is not None
    assert (first["met"], first["condition"], first["next"]) == ("met", "confirmed", "refine")
    assert first["facts"]["delta(lr-high)"] == pytest.approx(0.1)
    assert first["facts"]["confirmed_delta"] == 0.09  # of the fresh runs, adjusted
    assert (first["shown"]["lr-high"]["value"], first["shown"]["lr-high"]["search_mean"]) == (0.59, 0.6)
    assert (first["kept"], first["confirmed"]) == (["lr-high"], ["lr-high"])
    assert (second["met"], second["kept"], second["confirmed"]) == ("met", ["lr-2"], [])
    assert json.loads(plan_dir.flag.read_text())["report"] == str(plan_dir.report)
    report = plan_dir.report.read_text()
    for words in (
        f"Confirmed: stage screen, #2 try lr-high: {PROVED}.",
        "Kept, not confirmed: stage refine, #2 try lr-2: kept, not confirmed: ",
        f"best #2 try lr-high: {PROVED}, noise",
        "Expectations: 2 met.",
        "![lr-screen](figures/lr-screen.png)",
        "![every stage](figures/stages.png)",
        "None is recorded.",
        "`delta(lr-high)` = 0.1",
    ):
        assert words in report, words
    for name in ("stages", "lr-refine"):
        assert (plan_dir.directory / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "**ended**" in (plan_dir.directory / "progress.md").read_text()


def test_what_was_fixed_before_what_is_told_by_git_alone(yard: Any) -> None:
    """The registration, with the plan, all that it names and the code, is an ancestor of everything that ran."""
    yard.results = {"screen": GOOD}
    (yard.repo / "train.py").write_text("print('dirty')\n")
    before = (yard.git("status", "--porcelain"), yard.git("rev-parse", "HEAD"), (yard.repo / ".git/index").read_bytes())
    plan_dir = yard.approved()
    version = read_view(plan_dir).version
    run(yard, plan_dir)
    after = (yard.git("status", "--porcelain"), yard.git("rev-parse", "HEAD"), (yard.repo / ".git/index").read_bytes())
    assert after == before  # neither checkout nor index know of it
    subjects = yard.git("log", "--reverse", "--format=%s", f"{version.code}..{plan_dir.branch}").split("\n")
    assert subjects[:3] == [
        "plan lr: version 1 is registered",
        "plan lr: version 1 is approved",
        "plan lr: stage screen begins",
    ]
    assert yard.git("show", f"{version.commit}:.autoresearch/plan/plan.yaml") == yard.file.read_text().strip()
    assert sorted(tree_of(plan_dir, version.commit)) == [
        "files/exp.md", "files/exp.yaml", "files/topic.md", "plan.yaml", "records.jsonl"
    ]  # fmt: skip
    assert yard.git("show", f"{version.code}:train.py") == "print('dirty')"
    assert yard.git("rev-parse", "autoresearch/plans/lr/code-1") == version.code
    spec = json.loads((plan_dir.directory.parents[1] / "lr-screen" / "campaign.json").read_text())
    assert spec["base_commit"] == version.code and spec["prefix"] == "autoresearch/plans/lr/lr-screen"


def test_nothing_runs_without_an_approval(yard: Any) -> None:
    draft = yard.draft()
    plan_dir = register.PlanDir(draft.checkout, "lr")
    with pytest.raises(NotFoundError, match="no plan lr"):
        read_view(plan_dir)
    view = register.register(plan_dir, draft, yard.parts)
    with pytest.raises(ConflictError) as caught:
        run(yard, plan_dir)
    assert (caught.value.code, caught.value.fix) == ("not_approved", "autoresearch plan approve lr")
    assert yard.begun == []
    register.approve(plan_dir, view, yard.parts, waived=True)
    yard.results = {"screen": GOOD}
    assert run(yard, plan_dir).state == "ended"
    assert yard.records(plan_dir)[:2] == ["registered", "waived"]
    assert "version 1 was run without an approval (--no-human)" in plan_dir.report.read_text()


@pytest.mark.parametrize("name", ["lr.plan.yaml", "topic.md", "exp.md", "exp.yaml"])
def test_a_plan_that_was_changed_after_its_approval_is_refused(yard: Any, name: str) -> None:
    plan_dir = yard.approved()
    path = yard.repo / name
    path.write_text(path.read_text() + "\n# one more word\n")
    with pytest.raises(ConflictError) as caught:
        run(yard, plan_dir)
    assert caught.value.code == "plan_changed" and yard.begun == []
    assert yard.records(plan_dir) == ["registered", "approved"]  # not even its beginning is written down
    assert ("plan.yaml" if name == "lr.plan.yaml" else name) in caught.value.message
    assert "plan revise" in caught.value.fix
    with pytest.raises(ConflictError, match="changed after version 1"):
        register.register(plan_dir, yard.draft(), yard.parts)


def test_a_plan_whose_file_is_gone_says_how_to_get_it_back(yard: Any) -> None:
    plan_dir = yard.approved()
    text = yard.file.read_text()
    yard.file.unlink()
    with pytest.raises(NotFoundError) as caught:
        run(yard, plan_dir)
    assert caught.value.code == "plan_file_gone"
    subprocess.run(caught.value.fix, shell=True, check=True)
    assert yard.file.read_text() == text
    yard.results = {"screen": GOOD}
    assert run(yard, plan_dir).state == "ended"


def test_a_revision_is_another_version_and_keeps_the_results(yard: Any) -> None:
    yard.results = {"screen": {"lr-high": ("crash", None), "lr-low": ("crash", None)}, "again": GOOD}
    plan_dir = yard.approved()
    stopped = run(yard, plan_dir)
    assert (stopped.state, stopped.reason) == ("revise", "It does not run.")
    assert read_view(plan_dir).runs[0].conclusion["met"] == "undecided"  # type: ignore[index]
    with pytest.raises(ConflictError) as caught:
        register.need_pursuable(plan_dir, read_view(plan_dir))
    assert caught.value.code == "revision_due"
    assert run(yard, plan_dir) == stopped and yard.begun == ["lr-screen"]
    with pytest.raises(ConflictError, match="word for word"):
        register.revise(plan_dir, yard.draft(), yard.parts, reason="why not")

    def change(plan: dict[str, Any]) -> None:
        plan["stages"][0] |= {"name": "again", "question": "Once more?"}

    yard.write(change)
    with pytest.raises(UsageError, match="why is it revised"):
        register.revise(plan_dir, yard.draft(), yard.parts, reason=" ")
    view = register.revise(plan_dir, yard.draft(), yard.parts, reason="the recipe was wrong")
    assert (view.version.number, view.version.reason, view.next) == (2, "the recipe was wrong", "again")
    with pytest.raises(ConflictError, match="version 2 of the plan lr is not approved"):
        run(yard, plan_dir)
    register.approve(plan_dir, view, yard.parts, note="yes")
    assert run(yard, plan_dir).state == "ended"
    assert yard.begun == ["lr-screen", "lr-again", "lr-refine"]
    report = plan_dir.report.read_text()
    assert "+  - " in report and "why: the recipe was wrong" in report and "### Version 2" in report
    assert "Expectations: 1 met, 1 not met, 1 undecided." in report
    assert "not measured" in report


def test_a_revision_says_where_it_goes_on(yard: Any) -> None:
    plan_dir = yard.approved()
    yard.write(lambda p: p.update(title="Another title"))
    assert register.revise(plan_dir, yard.draft(), yard.parts, reason="a word").next == "screen"  # where it was going
    with pytest.raises(UsageError, match="no stage 'nowhere'"):
        yard.write(lambda p: p.update(title="Yet another"))
        register.revise(plan_dir, yard.draft(), yard.parts, reason="a word", at="nowhere")
    assert register.revise(plan_dir, yard.draft(), yard.parts, reason="a word", at="refine").next == "refine"


def test_a_plan_that_has_ended_can_be_revised_and_goes_on(yard: Any) -> None:
    yard.results = {"screen": GOOD}
    plan_dir = yard.approved()
    run(yard, plan_dir)
    assert plan_dir.flag.exists()
    yard.write(lambda p: p["stages"][1]["expectation"].update(sentence="Still further."))
    with pytest.raises(UsageError, match="every stage was already run"):
        register.revise(plan_dir, yard.draft(), yard.parts, reason="not enough")
    view = register.revise(plan_dir, yard.draft(), yard.parts, reason="not enough", at="refine")
    assert not plan_dir.flag.exists()
    register.approve(plan_dir, view, yard.parts)
    assert run(yard, plan_dir).state == "ended"
    assert yard.begun == ["lr-screen", "lr-refine", "lr-refine-2"] and plan_dir.flag.exists()


def test_nothing_is_revised_while_a_stage_runs(yard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from autoresearch.core.campaign.spec import CampaignPhase

    plan_dir = yard.approved()
    with monkeypatch.context() as patch:
        patch.setattr(stages, "follow", lambda *_, **__: CampaignPhase.PAUSED)
        stopped = run(yard, plan_dir)
    assert stopped.state == "paused"
    assert stopped.next == ("autoresearch campaign resume lr-screen", "autoresearch plan run lr")
    yard.write(lambda p: p["stages"][0]["expectation"].update(when="kept"))
    with pytest.raises(ConflictError) as caught:
        register.revise(plan_dir, yard.draft(), yard.parts, reason="it looks better so")
    assert caught.value.code == "stage_runs"
    yard.results = {"screen": GOOD}
    assert run(yard, plan_dir).state == "revise"  # judged by what was registered, whatever the file says now
    assert yard.begun == ["lr-screen"]


def test_a_stage_that_could_not_be_started_is_taken_back_by_a_revision(
    yard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_dir = yard.approved()

    def broken(*_: object) -> Any:
        raise ConflictError("the branch is taken")

    with monkeypatch.context() as patch:
        patch.setattr(stages, "begin_stage", broken)
        with pytest.raises(ConflictError, match="taken"):
            run(yard, plan_dir)
    assert yard.records(plan_dir)[-1] == "begun"
    yard.write(lambda p: p.update(title="Another title"))
    view = register.revise(plan_dir, yard.draft(), yard.parts, reason="another try")
    assert yard.records(plan_dir)[-2:] == ["withdrawn", "registered"] and (view.next, view.runs) == ("screen", [])


def test_alone_it_is_revised_by_whoever_is_asked_and_goes_on(yard: Any) -> None:
    yard.results = {"screen": {"lr-high": ("crash", None), "lr-low": ("crash", None)}}
    plan_dir, asked = yard.approved(), list[str]()

    def rewrite(view: Any, reason: str) -> Any:
        asked.append(reason)
        yard.write(lambda p: p["stages"][0].update(name=f"again-{len(asked)}"))
        return yard.draft()

    with in_pursuit(plan_dir):
        stopped = pursue_alone(plan_dir, yard.parts, yard.said.append, rewrite, 2)
    assert stopped.state == "revise"  # twice is enough; the rest is a person's
    assert asked == [
        "asked for by the outcome of stage screen: It does not run.",
        "asked for by the outcome of stage again-1: Nothing is proved.",
    ]
    assert yard.begun == ["lr-screen", "lr-again-1", "lr-again-2"]
    view = read_view(plan_dir)
    assert [view.approvals[n]["do"] for n in (1, 2, 3)] == ["approved", "waived", "waived"]


def test_a_circle_ends(yard: Any) -> None:
    def circle(plan: dict[str, Any]) -> None:
        plan["stages"][0] |= {"most_runs": 3}
        plan["stages"][0]["outcomes"] = [{"when": "otherwise", "conclusion": "Once more.", "next": "screen"}]

    yard.write(circle)
    plan_dir = yard.approved()
    stopped = run(yard, plan_dir)
    assert stopped.reason == "stage screen was run 3 times, which is its limit"
    assert yard.begun == ["lr-screen", "lr-screen-2", "lr-screen-3"]


def test_one_at_a_time(yard: Any) -> None:
    plan_dir = yard.approved()
    with locked(plan_dir.lock), pytest.raises(ConflictError) as caught:
        run(yard, plan_dir)
    assert (caught.value.exit_code, caught.value.code) == (5, "plan_runs")


class Killed(BaseException):
    """Nobody catches it, as nobody catches SIGKILL; locks go with it, as they go with a process."""


@pytest.mark.parametrize("point", ["committed", "recorded", "begun", "following", "judged", "reported"])
def test_killed_anywhere_and_run_again_comes_to_the_same(
    yard: Any, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Each life is killed a little later than the one before; what is written down is as if none had been."""
    from autoresearch.lab.plans import plan_dir as plan_dirs
    from autoresearch.lab.plans import run_stages as pursuing

    yard.results = {"screen": GOOD}
    plan_dir = yard.approved()
    for number in range(1, 12):
        left = [number]

        def passed(name: str, left: list[int] = left) -> None:
            left[0] -= name == f"plan.{point}"
            if name == f"plan.{point}" and not left[0]:
                raise Killed

        monkeypatch.setattr(plan_dirs, "failpoint", passed)
        monkeypatch.setattr(pursuing, "failpoint", passed)
        try:
            run(yard, plan_dir)
        except Killed:
            continue
        break
    else:
        pytest.fail("it never got to the end")
    assert number > 1, "nothing was killed"
    assert yard.records(plan_dir) == ["registered", "approved", "begun", "concluded", "begun", "concluded", "ended"]
    assert plan_dir.flag.exists() and yard.begun == ["lr-screen", "lr-refine"]


def test_two_records_at_once_are_both_kept(yard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from autoresearch.lab.plans import plan_dir as plan_dirs

    plan_dir, real = yard.approved(), plan_dirs.commit_hypothesis

    def slow(*args: Any, **more: Any) -> Any:
        made = real(*args, **more)
        monkeypatch.setattr(plan_dirs, "commit_hypothesis", real)
        add_record(plan_dir, {"do": "other", "t": 1.0}, "another command was quicker")
        return made

    monkeypatch.setattr(plan_dirs, "commit_hypothesis", slow)
    add_record(plan_dir, {"do": "ours", "t": 2.0}, "ours")
    assert yard.records(plan_dir)[-2:] == ["other", "ours"]


def test_another_plan_of_the_same_name(yard: Any) -> None:
    plan_dir = yard.approved()
    other = yard.repo / "sub"
    other.mkdir()
    text = yard.file.read_text().replace("exp.md", "../exp.md").replace("topic.md", "../topic.md")
    (other / "lr.plan.yaml").write_text(text)
    with pytest.raises(ConflictError) as caught:
        register.register(plan_dir, register.read_draft(other / "lr.plan.yaml", yard.parts), yard.parts)
    assert caught.value.code == "plan_taken"


def test_it_is_found_from_anywhere_in_its_project(yard: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFoundError, match="there is no plan yet"):
        find_plan("", yard.parts)
    plan_dir = yard.approved()
    below = plan_dir.checkout.root / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert find_plan("lr", yard.parts).directory == plan_dir.directory == find_plan("", yard.parts).directory
    with pytest.raises(NotFoundError, match="no plan is called 'kl'"):
        find_plan("kl", yard.parts)
    monkeypatch.chdir(tmp_path)
    for name in ("lr", ""):
        with pytest.raises(NotFoundError) as refused:
            find_plan(name, yard.parts)
        assert str(plan_dir.checkout.root) in refused.value.hint


def test_damaged_records_are_told(yard: Any) -> None:
    plan_dir = yard.approved()
    from autoresearch.git_repo.branches import advance_branch
    from autoresearch.git_repo.hypothesis_commit import Change, commit_hypothesis
    from autoresearch.lab.plans.plan_dir import RECORDS

    made = commit_hypothesis(plan_dir.checkout, plan_dir.tip, Change(files={RECORDS: b"{\n"}), message="broken")
    advance_branch(plan_dir.checkout, plan_dir.branch, made.commit, plan_dir.tip)
    with pytest.raises(NotFoundError) as caught:
        read_view(plan_dir)
    assert caught.value.code == "plan_damaged" and "reflog" in caught.value.hint


def test_a_wait_sees_the_record_that_came_just_before_the_lock_was_released(
    yard: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from autoresearch.commands.plan_status import wait_for_record

    plan_dir, looks = yard.approved(), list[None]()

    def pursued(_: Any) -> bool:
        looks.append(None)
        if len(looks) == 2:  # after the plan was read for the last time
            add_record(plan_dir, {"do": "ended", "t": 1.0, "reason": "over"}, "ended")
        return len(looks) < 2

    monkeypatch.setattr(type(plan_dir), "pursued", property(pursued))
    monkeypatch.setattr("time.sleep", lambda _: None)
    wait_for_record(plan_dir, 100.0, -1, as_json=True, as_exit_code=False)
    payload = json.loads(capsys.readouterr().out)
    assert (payload["state"], payload["event"], payload["pursued"]) == ("ended", "news", False)
