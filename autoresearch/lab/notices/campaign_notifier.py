"""Hands over what a campaign has to say; the controller's part of notices."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState
from autoresearch.lab.notices import campaign_notices
from autoresearch.lab.notices.project_recipients import project_recipients
from autoresearch.lab.parts import Parts
from autoresearch.notifiers.hand_over import hand_over
from autoresearch.notifiers.notice import Notice
from autoresearch.notifiers.recipients import Recipients
from autoresearch.notifiers.sending import settled
from autoresearch.records.campaign_records import CampaignDir

MOST_STARTS = 3  # of the process that sends one notice, if something kills it


class CampaignNotifier:
    """The notices of one campaign. It raises nothing, waits for nothing, and remembers what it handed over.

    After a crash of the controller, another one knows from notices.jsonl what was sent, and hands over the rest.
    """

    def __init__(self, campaign_dir: CampaignDir, parts: Parts) -> None:
        self._campaign_dir, self._parts, self._host = campaign_dir, parts, os.uname().nodename
        self._senders: dict[str, list[subprocess.Popen[bytes] | None]] = {}  # by key of the notice
        self._full_since = ""  # the key of the full disk that is being waited for

    def look(self, state: CampaignState) -> None:
        """Hand over what the state calls for and was not handed over yet."""
        self._full_since = ""
        for notice in campaign_notices.due_notices(state, self._parts.clock(), self._host):
            self._hand_over(state.spec, notice)

    def end(self, state: CampaignState, reason: str) -> None:
        """Hand over the notice of the end, before the journal says that it is over: after that, nobody looks again."""
        self.look(state)
        self._hand_over(state.spec, campaign_notices.end_notice(state, reason, self._host))

    def full_disk(self, campaign_spec: CampaignSpec, reason: str) -> None:
        """Hand over, once until the controller works again, that nothing can be written."""
        if not self._full_since:
            self._full_since = f"disk_full:{self._parts.clock():.3f}"
            directory = self._campaign_dir.path
            key, name = self._full_since, campaign_spec.name
            self._hand_over(
                campaign_spec, campaign_notices.full_disk_notice(name, directory, reason, key, self._host)
            )

    def _hand_over(self, campaign_spec: CampaignSpec, notice: Notice) -> None:
        senders = self._senders.setdefault(notice.key, [])
        if senders and not (_was_killed(senders[-1]) and len(senders) < MOST_STARTS):
            return
        folder, recipients = self._campaign_dir.path, self._recipients(campaign_spec)
        wanting = recipients.of(notice.kind)
        done = settled(folder)
        if wanting and all((notice.key, one.number) in done for one in wanting):
            senders.append(None)
            return
        senders.append(hand_over(folder, notice, recipients, self._parts.environ))

    def _recipients(self, campaign_spec: CampaignSpec) -> Recipients:
        return project_recipients(Path(campaign_spec.blueprint).parent, self._parts.environ)


def announce_fault(campaign_dir: CampaignDir, state: CampaignState, reason: str) -> None:
    """Hand over that the controller ended on an error."""
    recipients = project_recipients(Path(state.spec.blueprint).parent, os.environ)
    notice = campaign_notices.fault_notice(state, reason, f"fault:{time.time():.3f}", os.uname().nodename)
    hand_over(campaign_dir.path, notice, recipients, os.environ)


def _was_killed(sender: subprocess.Popen[bytes] | None) -> bool:
    return sender is not None and (sender.poll() or 0) < 0
