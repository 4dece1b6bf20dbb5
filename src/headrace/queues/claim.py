"""A claim: the exclusive right to run one job now, for as long as its lease."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, cast

from headrace import clock
from headrace.errors import ClaimLost, OptionError, PayloadError
from headrace.protocol import claiming, codec
from headrace.protocol.claiming import Claimed, End
from headrace.protocol.options import named_options
from headrace.protocol.records import Counts, Record, parse_counts, parse_record
from headrace.protocol.steps import Steps
from headrace.protocol.texts import check_note, shown
from headrace.protocol.times import Duration, Time, duration_ms, to_ms
from headrace.queues.engine import Engine
from headrace.queues.failures import error_payload
from headrace.queues.twins import plain, twin

_MAX_PROGRESS: Final = 4096


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Data = TypeVar("Data", default=Any)
else:
    from typing import TypeVar

    Data = TypeVar("Data")  # its default is for type checkers only, until Python 3.13 has it
After: TypeAlias = Literal["waiting", "failed", "cancelled"]


class Claim(Generic[Data]):
    """A claimed job. Every write of it is refused once the claim is not current any more."""

    __slots__ = ("_claimed", "_counts", "_kind", "_record", "deadline", "engine", "key")

    def __init__(self, engine: Engine, claimed: Claimed, deadline: float, kind: Any = None) -> None:
        self.engine = engine
        self._claimed = claimed
        self._kind = kind
        self._record: Record | None = None
        self._counts: Counts | None = None
        #: queue and id, as the server writes them: "emails/welcome:42"
        self.key = claimed.key.decode()
        #: when the lease ends, by this process's monotonic clock (see `headrace.clock`); inf for a session's claims
        self.deadline = deadline

    def __repr__(self) -> str:
        return f"<Claim {self.key} attempt {self.attempt}>"

    @property
    def queue(self) -> str:
        """The name of the job's queue."""
        return self.key.split("/", 1)[0]

    @property
    def id(self) -> str:
        """The job's id."""
        return self.key.split("/", 1)[1]

    @property
    def claim_id(self) -> str:
        """The unguessable id of this claim."""
        return self._claimed.claim.decode()

    def _parsed(self) -> Record:
        if self._record is None:
            self._record = parse_record(self._claimed.record)
        return self._record

    @property
    def data(self) -> Data:
        """What was enqueued, decoded; of the queue's data type where it has one."""
        try:
            return cast("Data", codec.decode(self._parsed().payload, self._kind))
        except PayloadError as error:
            raise PayloadError(f"data of job {self.key}: {error}") from error.__cause__

    @property
    def lane(self) -> str:
        """The lane below the queue, '' when there is none."""
        return self._parsed().lane

    @property
    def priority(self) -> int:
        """0..100, greater goes first."""
        return self._parsed().priority

    @property
    def queued_at(self) -> float:
        """When the job was enqueued, in epoch seconds of the server."""
        return self._parsed().queued / 1000

    @property
    def options(self) -> dict[str, Any]:
        """The job's options with their names, in seconds; None stands for no limit."""
        return named_options(self._parsed().options)

    @property
    def counts(self) -> Counts:
        """Attempts, failures, stalls and timeouts, this attempt included."""
        if self._counts is None:
            self._counts = parse_counts(self._claimed.counts)
        return self._counts

    @property
    def attempt(self) -> int:
        """Which start of the job this is: 1 for the first."""
        return self.counts.attempts

    @property
    def failures(self) -> int:
        """How many attempts have failed so far."""
        return self.counts.failures

    @property
    def stalls(self) -> int:
        """How many attempts were lost with their worker so far."""
        return self.counts.stalls

    @property
    def timeouts(self) -> int:
        """How many attempts ran past their timeout so far."""
        return self.counts.timeouts

    @property
    def remaining(self) -> float:
        """Seconds left of the lease as this process sees it."""
        return self.deadline - clock.monotonic()

    def end(self, op: str, body: bytes = b"") -> End:
        """This claim's end, to be sent together with others."""
        return End(self._claimed.key, self._claimed.claim, op, body)

    @property
    def size(self) -> int:
        """The bytes of the job's record on the server."""
        return len(self._claimed.record)

    @property
    def shard(self) -> int:
        """The shard that the job lives in."""
        return self._claimed.shard

    def _send(self, op: str, body: bytes = b"") -> Steps[str]:
        letter = yield from claiming.finish([self.end(op, body)], self.shard)
        if letter == claiming.LOST:
            raise self._lost()
        return letter

    def _lost(self) -> ClaimLost:
        return ClaimLost(
            f"the claim on job {self.key} is not current any more: its lease ran out, or the job was finished, "
            "released or taken over; nothing was changed",
            self.queue,
            self.id,
        )

    def _complete(self, result: Any = None) -> Steps[bool]:
        """End the job as done and keep its result; True for exactly one caller."""
        body = packed(self, result, "result")
        letter = yield from claiming.finish([self.end("c", body)], self.shard)
        return letter == claiming.COMPLETED

    def _retry(self, error: object = None, *, at: Time | None = None, delay: Duration | None = None) -> Steps[After]:
        """Count a failure and put the job back: at your time, else after its backoff.

        Answers "waiting" (it will run again), "failed" (its budget was spent) or "cancelled".
        """
        return _STATUS[(yield from self._send("r", _body(error, at, delay)))]

    def _fail(self, error: object = None) -> Steps[After]:
        """End the job as failed for good, whatever is left of its budget. Answers "failed", or "cancelled"."""
        return _STATUS[(yield from self._send("f", _body(error, None, None)))]

    def _release(self, delay: Duration = 0) -> Steps[After]:
        """Give the job back unrun: nothing is counted, and it keeps its place in line unless it is to wait."""
        return _STATUS[(yield from self._send("l", claiming.time_body(delay_ms=duration_ms(delay, "delay"))))]

    def _abandon(self) -> Steps[After]:
        """Give up as a crashed worker would, but at once: counted as a stall, the job goes to the next worker."""
        return _STATUS[(yield from self._send("a"))]

    def _extend(self, seconds: Duration) -> Steps[bool]:
        """Make the lease end `seconds` from now; False when the job was cancelled meanwhile: better stop."""
        ms = duration_ms(seconds, "seconds")
        if ms < 1:
            raise OptionError(
                f"seconds={shown(seconds)}: a lease must last at least a millisecond; abandon() ends it at once"
            )
        started = clock.monotonic()
        kept = yield from claiming.extend(self._claimed.key, self._claimed.claim, ms, self.shard)
        if not kept.current:
            raise self._lost()
        self.deadline = started + ms / 1000
        return kept.cancelled is None

    def _report(self, done: float | None = None, text: str = "") -> Steps[bool]:
        """Say how far the job is (0..1) and what it does; visible to everybody. False when it was cancelled."""
        if done is not None and not (isinstance(done, int | float) and 0 <= done <= 1):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError(f"done={shown(done)}: expected a share from 0 to 1, or None")
        payload = packed(
            self, {"done": done, "text": check_note(text, "text", _MAX_PROGRESS)}, "progress", _MAX_PROGRESS
        )
        kept = yield from claiming.report(self._claimed.key, self._claimed.claim, payload, self.shard)
        if not kept.current:
            raise self._lost()
        return kept.cancelled is None

    complete, acomplete = plain(_complete), twin(_complete)
    retry, aretry = plain(_retry), twin(_retry)
    fail, afail = plain(_fail), twin(_fail)
    release, arelease = plain(_release), twin(_release)
    abandon, aabandon = plain(_abandon), twin(_abandon)
    extend, aextend = plain(_extend), twin(_extend)
    report, areport = plain(_report), twin(_report)


_STATUS: Final[dict[str, After]] = {"R": "waiting", "F": "failed", "X": "cancelled", "L": "waiting", "P": "waiting"}


def _body(error: object, at: Time | None, delay: Duration | None) -> bytes:
    if at is not None and delay is not None:
        raise OptionError("give at or delay, not both")
    at_ms = -1 if at is None else to_ms(at, "at")
    delay_ms = -1 if delay is None else duration_ms(delay, "delay")
    return claiming.time_body(at_ms, delay_ms, error_payload(error))


def packed(claim: Claim[Any], value: object, what: str, limit: int | None = None) -> bytes:
    """The payload of something about a job; the error of one that cannot be made names the job."""
    try:
        return codec.encode(value, limit or claim.engine.max_payload, what)
    except PayloadError as error:
        raise PayloadError(f"job {claim.key}: {error}") from error.__cause__
