-- Claiming: down the tree of lanes, always to the first entry of an index, so never past blocked work (E2-E4, E9).
--
-- The walk takes jobs in turns: a lane gives up to quantum * weight jobs, pays for them, and the next entry is
-- looked at. What was taken is written down at the end of the call, all at once.
--
-- spec: n, ahead, queues ("*" or a list), session, nonce, lease ms (by hand) or 0, members, units

--- First and second entry of an index: segment, level, turn, and the level that competes (or huge).
local function front(parent, band)
  local e = call('ZRANGE', K .. 'i:' .. parent, 0, 1, 'WITHSCORES')
  if not e[1] then return nil end
  local score = tonumber(e[2])
  local level = floor(score / band)
  local rival = e[4] and floor(tonumber(e[4]) / band) or math.huge
  return { seg = e[1], level = level, turn = score - level * band, rival = rival }
end

--- The queue to serve next among those the session serves.
local function front_queue(queues)
  if queues == '*' then return front('', BAND) end
  local best, second, name
  local scores = call('ZMSCORE', K .. 'i:', unpack(queues))
  for i = 1, #queues do
    local s = scores[i] and tonumber(scores[i])
    if s and (not best or s < best) then best, second, name = s, best, queues[i]
    elseif s and (not second or s < second) then second = s end
  end
  if not best then return nil end
  local level = floor(best / BAND)
  return { seg = name, level = level, turn = best - level * BAND, rival = second and floor(second / BAND) or math.huge }
end

--- Walk from a queue to the lane whose job goes first. Answers the steps taken: {parent, seg, node, front}.
local function descend(first)
  local steps = { { parent = '', seg = first.seg, node = node(first.seg), front = first } }
  local n = steps[1].node
  while n.k > 0 do
    local f = front(n.path, n.band)
    if not f then return nil, n end
    if f.seg == '' then
      steps[#steps + 1] = { parent = n.path, seg = '', node = n, front = f, own = true }
      return steps
    end
    n = node(n.path .. '/' .. f.seg)
    steps[#steps + 1] = { parent = steps[#steps].node.path, seg = f.seg, node = n, front = f }
  end
  return steps
end

--- What may start along the steps: units (caps), starts (rates), and whether nothing limits or prefers at all.
local function room_of(steps)
  local units, starts, plain = math.huge, math.huge, true
  for i = 1, #steps do
    local n = steps[i].node
    if not steps[i].own then
      if n.cap then units, plain = min(units, n.cap - running(n)), false end
      if n.rn then starts, plain = min(starts, tokens(n)), false end
      if n.prio then plain = false end
    end
  end
  return units, starts, plain
end

--- How many jobs this turn may take at most, and the last level of jobs that still goes before the competition.
local function turn_limit(steps, wanted)
  local limit, level, fixed = wanted, math.huge, false
  for i = #steps, 1, -1 do
    local s = steps[i]
    local f = s.front
    if f.rival == f.level then
      limit = min(limit, max(1, floor((s.own and 1 or s.node.weight) * (s.own and QUANTUM or s.node.quantum))))
    end
    fixed = fixed or (s.node.prio and not s.own) or (i == 1 and s.node.aging)
    if not fixed then level = min(level, f.rival == f.level and f.level or f.rival - 1) end
  end
  return limit, level
end

--- Pop up to `limit` jobs that stand no lower than `level`: ids and their scores.
local function pop_jobs(path, limit, level)
  local n = node(path)
  local jobs = call('ZRANGE', K .. 'z:' .. path, 0, limit - 1, 'WITHSCORES')
  local k = #jobs / 2
  while k > 1 and job_level(n.queue, tonumber(jobs[2 * k])) > level do k = k - 1 end
  if k == 0 then return jobs, 0 end
  call('ZREMRANGEBYRANK', K .. 'z:' .. path, 0, k - 1)
  return jobs, k
end

--- The steps pay for `k` jobs where they compete, innermost first, so that each index is right again.
local function charge(steps, k, only_queue)
  for i = #steps, 1, -1 do
    local s = steps[i]
    local cost = 0
    if s.front.rival == s.front.level then
      cost = max(1, floor(k * UNIT / (s.own and 1 or s.node.weight) + 0.5))
      local key = 'v' .. s.front.level
      local p = s.parent
      if s.front.turn > turn_of_level(p, s.front.level) then call('HSET', K .. 'n:' .. p, key, s.front.turn) end
    end
    if i > 1 or not only_queue then
      local changed = settle(s.parent, s.seg, cost)
      if not changed and i == 2 and only_queue then return end
    else
      dirty[s.seg] = true
    end
  end
end

--- One turn: take jobs of one lane. Answers how many units were used, or nil when nothing may start.
local function take_turn(spec, left, taken)
  local first = front_queue(spec.queues)
  if not first then return nil end
  local steps, hollow = descend(first)
  if not steps then
    place(hollow.path)
    return 0
  end
  local last = steps[#steps]
  local path = last.node.path
  local units, starts, plain = room_of(steps)
  if left <= spec.ahead and not plain then return nil end
  if units < 1 or starts < 1 then
    place(path)
    return 0
  end
  if units < spec.units then return nil end
  local group = spec.members > 1 or spec.units > 1
  local wanted = group and spec.members or min(units, plain and left or left - spec.ahead)
  local limit, level = turn_limit(steps, min(wanted, starts))
  local jobs, k = pop_jobs(path, limit, level)
  if k == 0 then
    place(path)
    return 0
  end
  local used = group and left or k
  local claim = spec.nonce .. '.' .. string.format('%x', next_seq(group and 1 or k))
  local base = seq - (group and 0 or k - 1)
  local names = group and unit_names(jobs[1], spec.units) or {}
  for i = 1, k do
    local id = jobs[2 * i - 1]
    if not group then
      claim = spec.nonce .. '.' .. string.format('%x', base + i - 1)
      names[i] = id
    end
    taken[#taken + 1] = { queue = last.node.queue.path, id = id, path = path, score = tonumber(jobs[2 * i]), claim = claim,
      holder = group and jobs[1] or '', units = spec.units, first = group and i == 1 and k or nil }
  end
  for i = 1, #steps do
    local n = steps[i].node
    if not steps[i].own then
      many('SADD', K .. 'x:' .. n.path, names)
      if n.running then n.running = n.running + #names end
    end
  end
  count(path, 'r', -k)
  for i = 1, #steps do
    local n = steps[i].node
    if n.rn and not steps[i].own then
      local starts = {}
      for j = #taken - k + 1, #taken do
        starts[#starts + 1] = now
        starts[#starts + 1] = taken[j].claim .. ' ' .. taken[j].id
      end
      call('ZREMRANGEBYSCORE', K .. 'g:' .. n.path, '-inf', now - n.rw)
      many('ZADD', K .. 'g:' .. n.path, starts)
      call('PEXPIRE', K .. 'g:' .. n.path, n.rw + 1000)
    end
  end
  charge(steps, k, spec.queues ~= '*' and #spec.queues == 1)
  return used
end

--- Jobs of tasks that are paused wait with their task; jobs without a record never were.
local function admit(t, rec)
  if not rec then return false end
  t.job = parse(rec)
  local task = meta.trules > 0 and option(t.job, 'n')
  return not (task and task_stopped(task))
end

--- Write down what was taken: runs, deadlines, the session's jobs. Answers those that really start.
local function record_runs(spec, taken)
  local by_queue, started, gone = {}, {}, {}
  for i = 1, #taken do
    local q = by_queue[taken[i].queue]
    if not q then q = { ids = {}, list = {} }; by_queue[taken[i].queue] = q end
    q.ids[#q.ids + 1] = taken[i].id
    q.list[#q.list + 1] = taken[i]
  end
  local runs, mine, deadlines = {}, {}, {}
  for queue, q in pairs(by_queue) do
    local recs, counts = hmget(K .. 'j:' .. queue, q.ids), hmget(K .. 't:' .. queue, q.ids)
    for i = 1, #q.list do
      local t, key = q.list[i], queue .. '/' .. q.list[i].id
      local ok = admit(t, recs[i])
      local c = ok and counts[i] and unpack_(counts[i])
      local timeout = ok and t.job.o and option(t.job, 't') or -1
      local deadline, kind = spec.lease > 0 and now + spec.lease or 0, spec.lease > 0 and 'l' or ''
      if timeout ~= -1 and (deadline == 0 or now + timeout + 5000 < deadline) then deadline, kind = now + timeout + 5000, 't' end
      local j = t.job or { queued = 0, gen = 0, at = 0, rec = '' }
      local e = { t.claim, spec.session, t.path, now, t.score, (c and c.a or 0) + 1, j.queued, j.gen, #j.rec - j.at, deadline, kind,
        t.holder, t.units, j.o or '' }
      runs[#runs + 1] = key
      runs[#runs + 1] = pack(e)
      mine[#mine + 1] = key
      if deadline > 0 then
        deadlines[#deadlines + 1] = deadline
        deadlines[#deadlines + 1] = key
      end
      if t.first and t.holder ~= '' then call('HSET', K .. 'kc', t.claim, t.first) end
      t.key, t.entry, t.rec, t.counts = key, e, recs[i], c
      if not ok then gone[#gone + 1] = t end
      t.ok = ok
    end
  end
  many('HSET', K .. 'run', runs)
  many('SADD', K .. 'sj:' .. spec.session, mine)
  many('ZADD', K .. 'dl', deadlines)
  for i = 1, #taken do
    if taken[i].ok then started[#started + 1] = taken[i] end
  end
  if gone[1] then
    local list = {}
    for i = 1, #gone do list[i] = { gone[i].key, gone[i].entry } end
    end_runs(list)
    for i = 1, #gone do
      local t = gone[i]
      return_start(t.entry, t.id)
      if t.job then end_parked(t.queue, t.id, t.entry, t.job, counts_of(call('HGET', K .. 't:' .. t.queue, t.id))) end
    end
  end
  return started
end

--- What a worker needs to know of a claimed job, four values: "queue/id", claim, counts, record.
local function add_claim(reply, key, claim, counts, rec)
  local n = #reply
  reply[n + 1], reply[n + 2] = key, claim
  reply[n + 3] = counts and concat({ counts.a + 1, counts.f, counts.s, counts.o }, ' ') or ''
  reply[n + 4] = rec
end

--- The reply of an earlier claim again, made of what is still claimed by it.
local function replay_claims(list, reply)
  for i = 1, #list, 2 do
    local key, claim = list[i], list[i + 1]
    local e = run_of(key)
    if e and e[1] == claim then
      local queue, id = split(key)
      local counts = call('HGET', K .. 't:' .. queue, id)
      add_claim(reply, key, claim, counts and unpack_(counts), call('HGET', K .. 'j:' .. queue, id))
    end
  end
  return reply
end

local function level_waiting(queues)
  local f = front_queue(queues)
  return f and f.level or -1
end

--- The session found nothing: it will wait, and is to be woken (E26).
local function register_waiter(spec, due)
  local ends = min(due, now + spec.wait)
  call('ZREMRANGEBYSCORE', K .. 'waiters', '-inf', now - 60000)
  call('ZADD', K .. 'waiters', ends, spec.waiter)
  if spec.queues == '*' then call('ZADD', K .. 'w:*', ends, spec.waiter)
  else for i = 1, #spec.queues do call('ZADD', K .. 'w:' .. spec.queues[i], ends, spec.waiter) end end
end

--- Claim: answers the reply {ms until something is due or -1, -1, four values a job ...}
-- and the plain list key, claim, ... from which it can be made again.
local function claim_jobs(spec)
  local taken, left = {}, spec.n + spec.ahead
  local tries = 0
  while left > 0 and tries < 50 do
    local ok, used = pcall(take_turn, spec, left, taken)
    if not ok then
      if #taken == 0 then error(used) end
      break
    end
    if not used then break end
    if used == 0 then tries = tries + 1 end
    left = left - used
  end
  local started = #taken > 0 and record_runs(spec, taken) or taken
  local due = next_due()
  local reply, list = { due == math.huge and -1 or max(0, due - now), -1 }, {}
  for i = 1, #started do
    local t = started[i]
    add_claim(reply, t.key, t.claim, t.counts, t.rec)
    list[2 * i - 1], list[2 * i] = t.key, t.claim
  end
  if #list == 0 then
    if spec.wait > 0 then register_waiter(spec, due) end
  elseif call('ZCARD', K .. 'waiters') > 0 then
    if spec.waiter ~= '' then call('ZREM', K .. 'waiters', spec.waiter) end
    if due < now + 5000 then alarm(due) end
  end
  return reply, list
end

--- The part of the arguments that a claim is made of; `at` is the place before n.
local function spec_of(args, at, session)
  local spec = { session = session, n = tonumber(args[at + 2]), ahead = tonumber(args[at + 3]), lease = tonumber(args[at + 4]),
    wait = tonumber(args[at + 5]), waiter = args[at + 6], nonce = args[at + 7], members = tonumber(args[at + 8]),
    units = tonumber(args[at + 9]), queues = '*' }
  if args[at + 10] ~= '*' then
    spec.queues = {}
    for i = at + 10, #args do spec.queues[#spec.queues + 1] = args[i] end
  end
  if spec.lease == 0 then
    local v = call('HMGET', K .. 'ss:' .. session, 'lease', 'dead', 'serves')
    if not v[1] or v[2] then refuse('LOST', 'session ' .. session .. ' is not alive: its lease ran out, or it was closed') end
    if call('SCARD', K .. 'parked') > 0 then unpark(unpack_(v[3]).tasks or {}, max(100, 2 * spec.n)) end
  end
  return spec
end
