-- Claiming: what the turns took is written down, and the answer made (E9-E13).

-- What a worker needs to know of a claimed job are four values: "queue/id", claim, counts, record.

local function counts_said(counts)
  return counts and concat({ counts.a + 1, counts.f, counts.s, counts.o }, ' ') or ''
end

--- An entry that was taken but has no record never was a job: a stranger's hand put it there.
local function turn_away(run)
  end_runs({ run })
  return_start(run.e, run.id)
end

local function common_for(spec, turn, ends, kind)
  return common_of(spec.session, turn.path, now, ends, kind, turn.group and 1 or 0, turn.units, turn.uncapped)
end

--- The entry of a run, and when it must end by itself (0: with its session).
local function start_run(spec, turn, i, rec, attempt)
  local claim, score = claim_id(spec, turn, i), tonumber(turn.jobs[2 * i])
  if not rec then return claim, entry_of(claim, turn.common, score, attempt, NEVER_BORN, 0), turn.ends end
  local options, payload_at = options_in(rec)
  local timeout, common, ends = options and unpack_once(options).t or -1, turn.common, turn.ends
  if timeout ~= -1 and (ends == 0 or now + timeout + GRACE < ends) then
    ends = now + timeout + GRACE
    common = common_for(spec, turn, ends, 't')
  end
  return claim, entry_of(claim, common, score, attempt, born_of(rec), #rec - payload_at + 1, options), ends
end

--- Write down what was taken in one queue: runs and deadlines. Adds to `reply` and `list` what
-- really starts.
local function record_turns(spec, queue, turns_, reply, list)
  local ids, at = {}, 0
  for t = 1, #turns_ do
    local jobs = turns_[t].jobs
    for i = 1, #jobs, 2 do
      at = at + 1
      ids[at] = jobs[i]
    end
  end
  local recs = hmget(K .. 'j:' .. queue, ids)
  local counts = call('EXISTS', K .. 't:' .. queue) == 1 and hmget(K .. 't:' .. queue, ids) or {}
  local runs, deadlines, away, prefix = {}, {}, {}, queue .. '/'
  local said, listed = #reply, #list
  at = 0
  for t = 1, #turns_ do
    local turn = turns_[t]
    turn.ends = spec.lease > 0 and now + spec.lease or 0
    turn.common = common_for(spec, turn, turn.ends, spec.lease > 0 and 'l' or '-')
    for i = 1, turn.n do
      at = at + 1
      local rec, key, c = recs[at], prefix .. ids[at], counts[at] and unpack_(counts[at])
      local claim, raw, ends = start_run(spec, turn, i, rec, (c and c.a or 0) + 1)
      runs[2 * at - 1], runs[2 * at] = key, raw
      if ends > 0 then
        deadlines[#deadlines + 1] = ends
        deadlines[#deadlines + 1] = key
      end
      if rec then
        reply[said + 1], reply[said + 2], reply[said + 3], reply[said + 4] = key, claim, counts_said(c), rec
        said, listed = said + 4, listed + 1
        list[listed] = key
      else
        away[#away + 1] = { key = key, queue = queue, id = ids[at], e = own(open_entry(raw)) }
      end
    end
    if turn.group then call('HSET', K .. 'kc', claim_id(spec, turn, 1), turn.n) end
  end
  many('HSET', K .. 'run', runs)
  many('ZADD', K .. 'dl', deadlines)
  for i = 1, #away do turn_away(away[i]) end
end

--- The reply of an earlier claim again, made of what is still claimed by it: of the jobs in `list`, those whose claims
-- begin with its nonce. The two numbers of `reply` stand from `at` on.
local function replay_claims(nonce, list, reply, at)
  if not list[1] then
    local due = next_due()
    if due < math.huge then reply[at] = max(0, due - now) end
  end
  for i = 1, #list do
    local e = run_of(list[i])
    if e and sub(e.claim, 1, #nonce) == nonce then
      local queue, id = split(list[i])
      local counts = call('HGET', K .. 't:' .. queue, id)
      local n = #reply
      reply[n + 1], reply[n + 2], reply[n + 3] = list[i], e.claim, counts_said(counts and unpack_(counts))
      reply[n + 4] = call('HGET', K .. 'j:' .. queue, id)
    end
  end
  return reply
end

--- The level that waits for those who serve these queues, after a claim of theirs; -1 when nothing does.
local function level_waiting(queues, found)
  local f = front_queue(queues)
  if f and found and (queues == '*' or #queues > 1) then pass_on(queues) end
  return f and f.level or -1
end

--- The session found nothing: it will wait, and is to be woken (E26).
local function register_waiter(spec, due)
  local ends = min(due, now + spec.wait)
  call('ZREMRANGEBYSCORE', K .. 'waiters', '-inf', now - 60000)
  call('ZADD', K .. 'waiters', ends, spec.waiter)
  if ends > meta.awake then
    meta.awake = ends
    call('HSET', K .. 'meta', 'awake', ends)
  end
  local queues = spec.queues == '*' and { '*' } or spec.queues
  for i = 1, #queues do
    call('ZREMRANGEBYSCORE', K .. 'w:' .. queues[i], '-inf', now - 60000)
    call('ZADD', K .. 'w:' .. queues[i], ends, spec.waiter)
  end
end

--- Claim: answers the reply {ms until something is due or -1, -1, four values a job ...}
-- and the list of jobs from which it can be made again.
local function claim_jobs(spec)
  local taken, left = {}, spec.n + spec.ahead
  if spec.serves and meta.died[spec.session] then left = 0 end -- in this very call: what it took would be nobody's
  local tries = 0
  spec.bytes = 0
  while left > 0 and tries < 50 and spec.sifted < SIFTED and not spec.full do
    local sifted = spec.sifted
    local ok, used = pcall(take_turn, spec, left, taken)
    if not ok then
      if #taken == 0 then error(used) end
      break
    end
    if not used then break end
    if used == 0 and spec.sifted == sifted then tries = tries + 1 end
    left = left - used
  end
  local reply, list = { -1, -1 }, {}
  local i = 1
  while i <= #taken do
    local queue, of_queue = taken[i].queue, {}
    while i <= #taken and taken[i].queue == queue do
      of_queue[#of_queue + 1] = taken[i]
      i = i + 1
    end
    record_turns(spec, queue, of_queue, reply, list)
  end
  settle_dirty() -- a rate that was spent sets a timer
  -- Cut short by its bounds: there may be more, so it is to be asked for at once.
  local due = (spec.full or spec.sifted >= SIFTED) and now or next_due()
  -- A wait of half a lease would pass for a silence of the server (`forgive`).
  local lease = #list == 0 and spec.wait > 0 and shortest_lease()
  if lease then due = min(due, now + floor(lease * 0.4)) end
  if due < math.huge then reply[1] = max(0, due - now) end
  if #list == 0 and spec.wait > 0 then
    register_waiter(spec, due)
  else
    -- Who does not wait (any more) may have been the one to be awake by then.
    if spec.waiter ~= '' and anybody_waits() then call('ZREM', K .. 'waiters', spec.waiter) end
    if due < now + 5000 then meta.alarm = min(meta.alarm, due) end
  end
  return reply, list
end

local function refuse_dead(session)
  refuse('LOST', 'session ' .. session .. ' is not alive: its lease ran out, or it was closed')
end

--- The part of the arguments that a claim is made of; `at` is the place before n. Refuses a session that is dead.
local function spec_of(args, at, session)
  local lease = tonumber(args[at + 4])
  local spec = { session = lease > 0 and '' or session, lease = lease, n = tonumber(args[at + 2]),
    ahead = tonumber(args[at + 3]), wait = tonumber(args[at + 5]), waiter = args[at + 6], nonce = args[at + 7],
    members = tonumber(args[at + 8]), units = tonumber(args[at + 9]), queues = '*', sifted = 0 }
  if args[at + 10] ~= '*' then
    spec.queues = {}
    for i = at + 10, #args do spec.queues[#spec.queues + 1] = args[i] end
  end
  if spec.lease == 0 then
    local v = call('HMGET', K .. 'ss:' .. session, 'lease', 'dead', 'serves')
    if not v[1] or v[2] then
      pass_on(spec.queues)
      refuse_dead(session)
    end
    spec.serves = v[3]
  end
  return spec
end

--- What comes before taking: time does its part, and what was parked for want of this session comes back; who
-- leases by hand needs no handler, and takes what has no task.
local function prepare(spec)
  if call('SCARD', K .. 'parked') > 0 then
    local by_hand = { tasks = { '' }, queues = spec.queues ~= '*' and spec.queues or nil }
    unpark(spec.serves and unpack_(spec.serves) or by_hand, max(100, 2 * spec.n))
  end
  housekeep(spec.n)
  settle_dirty()
end
