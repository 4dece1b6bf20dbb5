"""Every error that Headrace raises, as one tree.

HeadraceError
├── InvalidInput            what you passed cannot be used; nothing was sent
│   ├── PayloadError        data that cannot be encoded, is too large or too deep
│   ├── OptionError         an unknown option, or a value outside its bounds
│   ├── NameInvalid         a queue, lane, task or id with characters or a length that is not allowed
│   └── RouteRequired       several shards, and nothing says which one this job belongs to
├── JobError                about one job
│   ├── JobExists           `if_exists="error"`, and the id is taken
│   ├── JobNotFound         no such job, or its retention has passed
│   ├── JobFailed           the job ended as `failed`: its last error is in the message
│   ├── JobCancelled        the job ended as `cancelled`
│   └── ClaimLost           the claim is not current any more: the server refused its write
├── ResultTimeout           the job did not end within the time you gave
├── QueueFull               the server is out of memory: it takes no new jobs, finishing still works
├── SettingConflict         a setting that cannot change while jobs wait under it
├── ServerError             the server cannot be used
│   ├── ServerUnavailable   it cannot be reached, or did not answer in time
│   ├── ServerUnfit         too old, may evict keys, or refuses our commands
│   ├── EmbeddedUnavailable no server program to embed, or it did not start
│   ├── ShardMismatch       the server holds another number of shards than you asked for
│   ├── ForeignKey          a key of ours holds a value of another type: somebody else wrote there
│   ├── NoShard             the server lost the shard's data, or it was never initialised
│   └── UpgradeNeeded       the data was written by a newer Headrace
└── ProtocolError           a reply that this version does not understand: a defect, please report it
"""

from __future__ import annotations


class HeadraceError(Exception):
    """Base of all errors of Headrace: catch it to catch them all."""


class InvalidInput(HeadraceError, ValueError):
    """What you passed cannot be used; nothing was sent."""


class PayloadError(InvalidInput):
    """The data cannot be encoded, is too large, or is nested too deep."""


class OptionError(InvalidInput):
    """An unknown option, or a value outside its bounds."""


class NameInvalid(InvalidInput):
    """A queue, lane, task or id with characters or a length that is not allowed."""


class RouteRequired(InvalidInput):
    """There are several shards, and nothing says which one this job belongs to."""


class JobError(HeadraceError):
    """About one job; `queue` and `id` say which."""

    def __init__(self, message: str, queue: str = "", id: str = "") -> None:
        super().__init__(message)
        self.queue = queue
        self.id = id


class JobExists(JobError):
    """The id is taken, and `if_exists="error"` was asked for."""


class JobNotFound(JobError):
    """There is no such job, or its retention has passed."""


class JobFailed(JobError):
    """The job ended as `failed`; `error` holds what was recorded of its last error."""

    def __init__(self, message: str, queue: str = "", id: str = "", error: object = None) -> None:
        super().__init__(message, queue, id)
        self.error = error


class JobCancelled(JobError):
    """The job ended as `cancelled`."""


class ClaimLost(JobError):
    """The claim is not current any more: its write was refused and changed nothing."""


class ResultTimeout(HeadraceError, TimeoutError):
    """The job did not end within the time given; it goes on, only the waiting stopped."""


class QueueFull(HeadraceError):
    """The server is out of memory: it takes no new jobs; finishing jobs still works."""


class SettingConflict(HeadraceError):
    """A setting that cannot change while jobs wait under it."""


class ServerError(HeadraceError):
    """The server cannot be used."""


class ServerUnavailable(ServerError, ConnectionError):
    """The server cannot be reached, or did not answer in time."""


class ServerUnfit(ServerError):
    """The server is too old, may evict keys, or refuses our commands."""


class EmbeddedUnavailable(ServerError):
    """There is no server program to embed, or it did not start."""


class ShardMismatch(ServerError):
    """The server holds another number of shards than you asked for."""


class ForeignKey(ServerError):
    """A key of ours holds a value of another type: somebody else wrote there."""


class NoShard(ServerError):
    """The server has lost the shard's data, or it was never initialised."""


class UpgradeNeeded(ServerError):
    """The data was written by a newer Headrace than this one."""


class ProtocolError(HeadraceError):
    """A reply that this version does not understand: a defect, please report it."""
