"""A job as a handle: it asks the server, and holds nothing but its address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from headrace import clock
from headrace.errors import JobCancelled, JobFailed, JobNotFound, ResultTimeout
from headrace.protocol import codec, looking, ruling
from headrace.protocol.looking import Ref, Seen, Status
from headrace.protocol.options import check_flag, named_options
from headrace.protocol.records import Counts
from headrace.protocol.steps import Steps
from headrace.protocol.texts import check_note
from headrace.protocol.times import Duration, duration_ms
from headrace.queues.engine import Engine
from headrace.queues.failures import Failure, read_failure
from headrace.queues.reasons import Explanation, read_reasons
from headrace.queues.twins import plain, twin


@dataclass(frozen=True, slots=True)
class Progress:
    """What a running job last reported: a share of 0..1 or None, and a text."""

    done: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class JobInfo:
    """Everything known about a job at one moment. Times are epoch seconds of the server.

    `at` is when it was enqueued, is due, has started or has ended, as its status says; `counts` has its
    `attempts`, `failures`, `stalls` and `timeouts`, and `error` is the last attempt's. `data` is decoded without the
    queue's `data_type`, and None once the job is done or cancelled.
    """

    queue: str
    id: str
    status: Status | Literal[""]
    lane: str
    priority: int
    counts: Counts
    options: dict[str, Any]
    queued_at: float | None
    at: float
    error: Failure | None
    progress: Progress | None
    twin_held: bool
    cancelled_by: str
    data: Any


class Job:
    """One job: its queue, its id, and the generation that this handle stands for."""

    __slots__ = ("_ref", "engine", "outcome")

    def __init__(self, engine: Engine, ref: Ref, outcome: str = "") -> None:
        self.engine = engine
        self._ref = ref
        #: what the enqueue that made this handle did: added, updated, held or ignored; "" for a handle by id
        self.outcome = outcome

    def __repr__(self) -> str:
        return f"<Job {self.queue}/{self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and self._ref == other._ref and self.engine is other.engine

    def __hash__(self) -> int:
        return hash(self._ref)

    @property
    def queue(self) -> str:
        """The name of the queue."""
        return self._ref.queue

    @property
    def id(self) -> str:
        """The id within the queue."""
        return self._ref.id

    def _status(self) -> Steps[Status | None]:
        """scheduled, ready, held, running, done, failed or cancelled; None when nothing is known of it (any more).

        It is stranded when somebody changed the server's data so that it stands in no place: `app.audit(repair=True)`.
        """
        seen = yield from looking.look(self._ref)
        return seen.status or None

    def _info(self) -> Steps[JobInfo]:
        """Everything known about the job; JobNotFound when nothing is."""
        seen = yield from looking.look(self._ref)
        if not seen.status:
            raise self._unknown()
        return _info(self._ref, seen)

    def _explain(self) -> Steps[Explanation]:
        """Every reason why the job is not running, and since when."""
        status, raw = yield from looking.explain(self._ref)
        return Explanation(f"{self.queue}/{self.id}", status, read_reasons(raw))

    def _progress(self) -> Steps[Progress | None]:
        """What the running job last reported; None when it reports nothing or does not run."""
        seen = yield from looking.look(self._ref)
        return _progress(seen)

    def _result(self, timeout: Duration | None = None) -> Steps[Any]:
        """Wait for the end and answer the result; None waits for ever.

        Raises JobFailed, JobCancelled, ResultTimeout, or JobNotFound when the result is no longer kept.
        """
        ends = None if timeout is None else clock.monotonic() + duration_ms(timeout, "timeout") / 1000
        while True:
            left = 5.0 if ends is None else min(5.0, ends - clock.monotonic())
            if left <= 0:
                seen = yield from looking.look(self._ref)
                if seen.status not in _ENDED:
                    raise ResultTimeout(
                        f"job {self.queue}/{self.id} is still {seen.status} after {timeout} s; it goes on"
                    )
            else:
                seen = yield from looking.wait_for_end(self._ref, self.engine.site.namespace, left)
            if seen is not None:
                return self._outcome(seen)

    def _outcome(self, seen: Seen) -> Any:
        name = f"job {self.queue}/{self.id}"
        if seen.status == "done":
            return codec.decode(seen.body)
        if seen.status == "failed":
            failure = read_failure(seen.body)
            raise JobFailed(f"{name} failed: {failure}", self.queue, self.id, failure)
        if seen.status == "cancelled":
            by = seen.body.decode(errors="replace")
            raise JobCancelled(f"{name} was cancelled{': ' + by if by else ''}", self.queue, self.id)
        raise self._unknown()

    def _unknown(self) -> JobNotFound:
        return JobNotFound(
            f"nothing is known of job {self.queue}/{self.id}: it never was, or it ended and its result is no longer "
            "kept (option keep_result)",
            self.queue,
            self.id,
        )

    def _cancel(self, running: bool = False, why: str = "") -> Steps[bool]:
        """Cancel the job if it waits; with `running` also tell its worker to stop. True when anything was cancelled."""
        ref = self._ref
        letters = yield from ruling.cancel(
            ref.queue, [ref.id], check_flag(running, "running"), check_note(why, "why"), ref.shard
        )
        return letters != "-"

    def _retry(self) -> Steps[bool]:
        """Put a failed job back in line with fresh counts; False when it is not a failed one."""
        ref = self._ref
        return bool((yield from ruling.replay(ref.queue, [ref.id], "replay", ref.shard)))

    status, astatus = plain(_status), twin(_status)
    info, ainfo = plain(_info), twin(_info)
    explain, aexplain = plain(_explain), twin(_explain)
    progress, aprogress = plain(_progress), twin(_progress)
    result, aresult = plain(_result), twin(_result)
    cancel, acancel = plain(_cancel), twin(_cancel)
    retry, aretry = plain(_retry), twin(_retry)


_ENDED = ("", "done", "failed", "cancelled")


def _progress(seen: Seen) -> Progress | None:
    if not seen.progress:
        return None
    report = codec.decode(seen.progress)
    return Progress(report.get("done"), report.get("text", ""))


def _info(ref: Ref, seen: Seen) -> JobInfo:
    record = seen.record
    return JobInfo(
        queue=ref.queue,
        id=ref.id,
        status=seen.status,
        lane=record.lane if record else "",
        priority=record.priority if record else 50,
        counts=seen.counts,
        options=named_options(record.options) if record else {},
        queued_at=record.queued / 1000 if record else None,
        at=seen.at_ms / 1000,
        error=read_failure(seen.body) if seen.body and seen.status not in ("done", "cancelled") else None,
        progress=_progress(seen),
        twin_held=seen.held,
        cancelled_by=seen.cancelled_by,
        data=codec.decode(record.payload) if record else None,
    )
