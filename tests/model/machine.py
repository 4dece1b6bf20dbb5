"""The state machine: random calls to the functions on a real server, each answer and all keys against the model."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.model import asking, passing
from tests.model.claiming import claim, set_deadline
from tests.model.compare import compare, new_events
from tests.model.invariants import problems
from tests.model.model import Model
from tests.model.settings import set_lane, set_rule
from tests.model.state import State
from tests.tools.shard import Ask, Claims, Finish, Refused, Shard, Want, attempt

Actor = st.integers(0, 2)


#: How long the server keeps the last answer of a channel that is silent.
REMEMBERED = 600_000


class Engine(RuleBasedStateMachine):
    """One shard and its model."""

    client: redis.Redis

    @initialize()
    def begin(self) -> None:
        self.shard = Shard(self.client).start()
        self.model = Model()
        self.claims: list[tuple[str, str]] = []
        self.sessions: list[str] = []
        self.opened = 0
        self.entries = 0
        self.reply: Claims | None = None
        self.want = Want()
        self.open_session(20_000, ("T",))

    # Producers ----------------------------------------------------------------------------------------------

    @rule(queue=asking.queues, asks=st.lists(asking.asks, min_size=1, max_size=4), if_exists=st.sampled_from("uuuie"))
    def enqueue(self, queue: str, asks: list[Ask], if_exists: str) -> None:
        answer = attempt(lambda: self.shard.enqueue(queue, asks, if_exists))
        if isinstance(answer, Refused):
            assert answer.code == "EXISTS"
            assert self.model.enqueue(queue, asks, if_exists, ()) is None
            return
        letters, gens = answer
        assert letters == self.model.enqueue(queue, asks, if_exists, gens)

    @rule(queue=asking.queues, asks=st.lists(asking.plain_asks, min_size=1, max_size=4))
    def enqueue_plain(self, queue: str, asks: list[Ask]) -> None:
        self.enqueue(queue, asks, "u")

    @rule(queue=asking.queues, asks=st.lists(asking.plain_asks, min_size=2, max_size=6))
    def enqueue_more(self, queue: str, asks: list[Ask]) -> None:
        self.enqueue(queue, asks, "u")

    @rule(queue=asking.queues, ids=asking.id_lists, running=asking.mostly)
    def cancel(self, queue: str, ids: list[str], running: bool) -> None:
        letters = self.shard.cancel(queue, ids, running)
        assert letters == "".join([self.model.cancel(queue, id, running, "tester") for id in ids])

    # Workers ------------------------------------------------------------------------------------------------

    def session(self, actor: int) -> str:
        """One of the sessions that were opened last, dead or alive."""
        return self.sessions[-1 - actor % len(self.sessions)] if self.sessions else "nobody"

    def take(self, channel: str, want: Want) -> None:
        """A claim, by hand or for a session."""
        alive = self.ready(channel, want)
        got = attempt(lambda: self.shard.claim(want, channel))
        if isinstance(got, Refused):
            assert got.code == "LOST"
            if alive:
                passing.unpark(self.model, self.model.sessions[channel].tasks)
                passing.housekeep(self.model)
                self.model.seen = self.model.now
                assert self.model.sessions[channel].dead
            return
        assert alive, f"session {channel} is not alive and claimed"
        self.took(channel, want, got)

    def ready(self, channel: str, want: Want) -> bool:
        """Whether who claims may do so before time does its part."""
        session = self.model.sessions.get(channel)
        return want.lease > 0 or (session is not None and not session.dead)

    def took(self, channel: str, want: Want, got: Claims) -> None:
        """What a claim does before and when it takes."""
        if want.lease:
            passing.unpark(self.model, [""], want.queues)
        else:
            passing.unpark(self.model, self.model.sessions[channel].tasks)
        passing.housekeep(self.model)
        self.model.seen = self.model.now
        if not want.lease and self.model.sessions[channel].dead:
            assert not got.jobs, f"session {channel} died in this call and got jobs"
            return
        claim(self.model, channel, want, got)
        self.claims += [(job.key, job.claim) for job in got.jobs]
        self.reply, self.want = got, want

    @rule(want=asking.by_hand)
    def claim_by_hand(self, want: Want) -> None:
        self.take("hand", want)

    @rule(want=asking.slices)
    def claim_slice(self, want: Want) -> None:
        self.take("hand", want)

    @precondition(lambda self: self.sessions)
    @rule(actor=Actor, want=asking.by_session)
    def claim_for_session(self, actor: int, want: Want) -> None:
        self.take(self.session(actor), want)

    items = st.lists(st.tuples(st.integers(0, 9), asking.ops, asking.bodies), min_size=1, max_size=4)

    @precondition(lambda self: self.claims)
    @rule(items=items, foreign=st.integers(0, 9))
    def finish(self, items: list[tuple[int, str, str]], foreign: int) -> None:
        chosen = self.finishes(items, foreign == 0)
        letters, _ = self.shard.finish(chosen)
        assert letters == self.ended(chosen)
        self.model.seen = self.model.now

    @rule(want=asking.by_hand, items=items)
    def work(self, want: Want, items: list[tuple[int, str, str]]) -> None:
        self.take("hand", want)
        self.all_is_well()
        if self.claims:
            self.finish(items, 1)

    @precondition(lambda self: self.sessions)
    @rule(actor=Actor, want=asking.by_session, items=items)
    def work_in_session(self, actor: int, want: Want, items: list[tuple[int, str, str]]) -> None:
        self.take(self.session(actor), want)
        self.all_is_well()
        if self.claims:
            self.finish(items, 1)

    @precondition(lambda self: self.claims)
    @rule(items=items, actor=Actor, want=st.one_of(asking.by_session, asking.by_session, asking.by_hand))
    def finish_and_claim(self, items: list[tuple[int, str, str]], actor: int, want: Want) -> None:
        channel = "hand" if want.lease else self.session(actor)
        chosen = self.finishes(items, False)
        alive = self.ready(channel, want)
        answer = attempt(lambda: self.shard.finish(chosen, want, channel))
        if isinstance(answer, Refused):
            assert answer.code == "LOST"
            assert not alive, f"session {channel} is alive"
            return
        letters, got = answer
        assert alive, f"session {channel} is not alive and claimed"
        assert letters == self.ended(chosen)
        assert got is not None
        self.took(channel, want, got)

    def finishes(self, items: list[tuple[int, str, str]], foreign: bool) -> list[Finish]:
        """Mostly claims that are current, some made lately that may be over; or somebody else's."""
        pool = [(run.key, run.claim) for run in reversed(self.model.runs.values())] + self.claims[-3:]
        chosen: list[Finish] = []
        for index, op, body in items:
            key, claim_id = pool[index % len(pool)]
            text = "" if op in "pa" else body.removesuffix("error") if op == "l" else body if op in "rft" else "result"
            chosen.append(Finish(key, "somebody's" if foreign else claim_id, op, text))
        return chosen

    def ended(self, chosen: list[Finish]) -> str:
        """Letters by the model: of one claim named twice the first counts; what is completed comes first."""
        letters = ["-"] * len(chosen)
        first: dict[str, int] = {}
        for i, item in enumerate(chosen):
            run = self.model.runs.get(item.key)
            if run and run.claim == item.claim:
                first.setdefault(item.key, i)
        for i in sorted(first.values(), key=lambda i: chosen[i].op != "c"):
            item = chosen[i]
            letters[i] = self.model.finish(item.key, item.claim, item.op, item.body)
        return "".join(letters)

    @precondition(lambda self: self.claims)
    @rule(back=st.integers(0, 5), lease=asking.leases)
    def extend(self, back: int, lease: int) -> None:
        key, claim_id = self.claims[-1 - back % len(self.claims)]
        run = self.model.runs.get(key)
        current = run is not None and run.claim == claim_id
        assert self.shard.call("report", key, claim_id, "half")[0] == current
        assert self.shard.call("extend", key, claim_id, lease)[0] == current
        if run and current:
            set_deadline(self.model, run, lease)

    # Sessions ------------------------------------------------------------------------------------------------

    @rule(lease=st.sampled_from([10_000, 20_000]), tasks=st.sampled_from([(), ("T",), ("T", "U")]))
    def open_session(self, lease: int, tasks: tuple[str, ...]) -> None:
        self.opened += 1
        name = f"s{self.opened}"
        self.sessions.append(name)
        self.shard.open(name, lease, ("*",), tasks)
        passing.open_session(self.model, name, lease, tasks)

    @precondition(lambda self: self.sessions)
    @rule(actor=Actor)
    def close_session(self, actor: int) -> None:
        name = self.session(actor)
        moved, more = self.shard.close(name)
        assert (moved, more) == (passing.close(self.model, name), 0)

    @precondition(lambda self: self.sessions)
    @rule(actor=Actor)
    def heartbeat(self, actor: int) -> None:
        name = self.session(actor)
        assert self.shard.heartbeat(name) == passing.heartbeat(self.model, name)

    # Time, settings, rules -----------------------------------------------------------------------------------

    @rule(by=asking.spans)
    def advance(self, by: int) -> None:
        self.shard.advance(by)
        self.model.now = self.shard.now

    @rule(edge=asking.edges)
    def advance_to_an_edge(self, edge: tuple[int, int]) -> None:
        """To one of the next moments at which time does something, or just before or behind it."""
        which, offset = edge
        moments = sorted({at for at in self.model.moments() if at + offset > self.model.now})
        if moments:
            self.advance(moments[which % len(moments)] + offset - self.model.now)

    @rule(path=asking.paths, settings=asking.settings)
    def set_lane(self, path: str, settings: dict[str, Any]) -> None:
        set_lane(self.model, self.shard, path, settings)

    @rule(
        path=asking.paths, which=st.sampled_from(["pa", "bl"]), on=asking.switches, lasts=st.sampled_from([0, 15_000])
    )
    def rule_on_path(self, path: str, which: str, on: bool, lasts: int) -> None:
        until = self.model.now + lasts if on and lasts else 0
        changed = self.shard.rule("path", path, which, on, until)
        assert changed == set_rule(self.model.lane(path).rules, which, on, until)

    @rule(
        task=asking.tasks, which=st.sampled_from(["pa", "bl"]), on=asking.switches, lasts=st.sampled_from([0, 15_000])
    )
    def rule_on_task(self, task: str, which: str, on: bool, lasts: int) -> None:
        until = self.model.now + lasts if on and lasts else 0
        changed = self.shard.rule("task", task, which, on, until)
        assert changed == set_rule(self.model.task_rules.setdefault(task, {}), which, on, until)
        passing.rules_changed(self.model, task)

    @rule(queue=asking.queues, what=st.sampled_from(["replay", "drop"]), ids=st.lists(asking.ids, max_size=2))
    def dead_letters(self, queue: str, what: str, ids: list[str]) -> None:
        moved = self.shard.replay(queue, what, 2, ids)
        assert moved == self.model.replay(queue, what, 2, ids)

    # The line and the server ---------------------------------------------------------------------------------

    @precondition(lambda self: self.shard.last)
    @rule(which=st.integers(0, 9), lower=st.booleans())
    def repeat(self, which: int, lower: bool) -> None:
        channel, last = sorted(self.shard.last.items())[which % len(self.shard.last)]
        name, number, arguments, reply, at = last
        if self.shard.now - at >= REMEMBERED:
            return
        if lower:
            refused = attempt(lambda: self.shard.call(name, channel, number - 1, *arguments))
            assert isinstance(refused, Refused)
            assert refused.code == "STALE"
            return
        again = self.shard.call(name, channel, number, *arguments)
        assert self.current(name, again) == self.current(name, reply)

    def current(self, name: str, reply: Any) -> Any:
        """An answer, of a claim without what depends on the time and without claims that ended since."""
        if name not in ("claim", "finish"):
            return reply
        letters = reply[0] if name == "finish" else b""
        from_ = 1 if name == "finish" else 0
        jobs = reply[from_ + 2 :]
        kept = [
            tuple(jobs[at : at + 2])
            for at in range(0, len(jobs), 4)
            if (run := self.model.runs.get(jobs[at].decode())) and run.claim == jobs[at + 1].decode()
        ]
        return letters, len(reply) > from_, kept

    @rule()
    def lose_the_library(self) -> None:
        self.shard.client.function_flush()
        with pytest.raises(redis.ResponseError, match="Function not found"):
            self.shard.counts("a")
        self.shard.load()

    # After each step -----------------------------------------------------------------------------------------

    @invariant()
    def all_is_well(self) -> None:
        state = State(self.shard)
        wrong = problems(state)
        assert not wrong, "\n".join(wrong)
        compare(self.model, state)
        events = new_events(state, self.entries)
        assert events == self.model.events, f"history: {events}, should be {self.model.events}"
        self.entries, self.model.events = len(state.history), type(events)()
        if self.reply:
            self.check_hints(state, self.reply)
            self.reply = None

    def check_hints(self, state: State, reply: Claims) -> None:
        """What a claim says comes next: when to look again, and the level of what waits."""
        firsts = [next(iter(state.zset(index).values())) for index in ("due", "timers", "dl") if state.zset(index)]
        due = max(0, min(firsts) - state.now) if firsts else -1
        late = state.zset("dl") and next(iter(state.zset("dl").values())) <= state.now
        assert late or reply.due == due, f"says that something is due in {reply.due}, in truth in {due}"
        queues = state.zset("i:")
        served = [score for seg, score in queues.items() if self.want.queues == ("*",) or seg in self.want.queues]
        level = min(served) // 1e13 if served else -1
        assert reply.level == level, f"says that level {reply.level} waits, in truth {level}"
