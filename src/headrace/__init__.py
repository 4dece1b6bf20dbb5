"""Headrace: a distributed job queue on Redis/Valkey whose data pipeline runs on Spark."""

from headrace.app import Headrace
from headrace.errors import (
    ClaimLost,
    EmbeddedUnavailable,
    ForeignKey,
    HeadraceError,
    InvalidInput,
    JobCancelled,
    JobError,
    JobExists,
    JobFailed,
    JobNotFound,
    NameInvalid,
    NoShard,
    OptionError,
    PayloadError,
    ProtocolError,
    QueueFull,
    ResultTimeout,
    RouteRequired,
    ServerError,
    ServerUnavailable,
    ServerUnfit,
    SettingConflict,
    ShardMismatch,
    UpgradeNeeded,
)
from headrace.protocol.codec import FailedJob
from headrace.protocol.histories import Event, EventPage
from headrace.queues.claim import Claim
from headrace.queues.failures import Failure
from headrace.queues.job import Job, JobInfo, Progress
from headrace.queues.lane import Lane
from headrace.queues.queue import CONTENT, Queue
from headrace.queues.reasons import Explanation, Reason
from headrace.queues.settings import Counts

__all__ = [
    "CONTENT",
    "Claim",
    "ClaimLost",
    "Counts",
    "EmbeddedUnavailable",
    "Event",
    "EventPage",
    "Explanation",
    "FailedJob",
    "Failure",
    "ForeignKey",
    "Headrace",
    "HeadraceError",
    "InvalidInput",
    "Job",
    "JobCancelled",
    "JobError",
    "JobExists",
    "JobFailed",
    "JobInfo",
    "JobNotFound",
    "Lane",
    "NameInvalid",
    "NoShard",
    "OptionError",
    "PayloadError",
    "Progress",
    "ProtocolError",
    "Queue",
    "QueueFull",
    "Reason",
    "ResultTimeout",
    "RouteRequired",
    "ServerError",
    "ServerUnavailable",
    "ServerUnfit",
    "SettingConflict",
    "ShardMismatch",
    "UpgradeNeeded",
]
