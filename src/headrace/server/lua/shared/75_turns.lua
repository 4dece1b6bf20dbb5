-- Turns: down the tree of lanes, always to the first entry of an index, so never past blocked work (E2-E4).
--
-- A lane gives up to quantum * weight jobs, pays for them, and the next entry is looked at. What was taken is
-- written down at the end of the call, all at once (80_claiming).
--
-- spec: n, ahead, queues ("*" or a list), session, nonce, lease ms (by hand) or 0, members, units
-- turn: queue, path, n, jobs (n ids and scores), first (sequence of the first claim), group, units (of the claim),
--   uncapped, ends (deadline), common (43_run)

local front_queue, claim_id, take_turn
local SIFTED = 200   -- most jobs of stopped tasks that a claim puts aside

do -- a chunk of Lua has at most 200 locals: the others are of this file only

--- First and second entry of an index: segment, level, turn, and the level that competes (or huge).
local function front(parent, band)
  local e = call('ZRANGE', K .. 'i:' .. parent, 0, 1, 'WITHSCORES')
  if not e[1] then return nil end
  local score = tonumber(e[2])
  local level = floor(score / band)
  local rival = e[4] and floor(tonumber(e[4]) / band) or math.huge
  return { seg = e[1], level = level, turn = score - level * band, rival = rival, score = score }
end

--- The queue to serve next among those the session serves.
function front_queue(queues)
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
  return { seg = name, level = level, turn = best - level * BAND, score = best,
    rival = second and floor(second / BAND) or math.huge }
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

--- What may start along the steps: units (caps), starts (rates), whether nothing limits or prefers at all, and the
-- smallest cap.
local function room_of(steps)
  local units, starts, plain, cap = math.huge, math.huge, true, math.huge
  for i = 1, #steps do
    local n = steps[i].node
    if not steps[i].own then
      if n.cap then units, cap, plain = min(units, n.cap - n.running), min(cap, n.cap), false end
      if n.rn then starts, plain = min(starts, tokens(n)), false end
      if n.prio then plain = false end
    end
  end
  return units, starts, plain, cap
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

--- How many of these jobs (ids and scores) fit into what one call may carry; at least the first of the call.
local function fitting(spec, queue, jobs, k)
  for i = 1, k do
    local size = call('HSTRLEN', K .. 'j:' .. queue, jobs[2 * i - 1])
    if spec.bytes + size > CALL_BYTES and spec.bytes > 0 then
      spec.full = true
      return i - 1
    end
    spec.bytes = spec.bytes + size
  end
  return k
end

--- Pop up to `limit` jobs that stand no lower than `level`: ids and their scores, and the first that stays.
local function pop_jobs(spec, path, limit, level)
  local line = K .. 'z:' .. path
  local n = node(path)
  if level == math.huge and not n.queue.bulky then return call('ZPOPMIN', line, limit), nil end
  local jobs = call('ZRANGE', line, 0, limit, 'WITHSCORES')
  local k = min(#jobs / 2, limit)
  while k > 1 and job_level(n.queue, tonumber(jobs[2 * k])) > level do k = k - 1 end
  if n.queue.bulky then k = fitting(spec, n.queue.path, jobs, k) end
  if k == 0 then return {}, jobs end
  call('ZREMRANGEBYRANK', line, 0, k - 1)
  local first = { jobs[2 * k + 1], jobs[2 * k + 2] }
  for i = #jobs, 2 * k + 1, -1 do jobs[i] = nil end
  return jobs, first
end

-- Costs are whole numbers. What rounding takes from one turn another gets: multiples of the golden ratio spread their
-- fractions evenly over any stretch, so that shares hold for any weight, also where each claim takes one job.
local GOLDEN = 0.6180339887498949

--- The steps pay for `k` jobs where they compete, innermost first, so that each index is right again.
local function charge(steps, k, first, only_queue)
  for i = #steps, 1, -1 do
    local s = steps[i]
    local f, cost = s.front, 0
    if f.rival == f.level then
      cost = floor(k * UNIT / (s.own and 1 or s.node.weight) + seq * GOLDEN % 1)
    end
    if i == 1 and only_queue then
      dirty[s.seg] = true
    elseif not settle(s.parent, s.seg, cost, f.score, i == #steps and first or nil) and i == 2 and only_queue then
      local queue = steps[1].node
      if queue.cap or queue.rn then dirty[s.parent] = true end
      return
    end
  end
end

local HEX_DIGITS = { [0] = '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f' }
local HEX = {}
for i = 0, 255 do
  local high = (i - i % 16) / 16
  HEX[i] = HEX_DIGITS[high] .. HEX_DIGITS[i % 16]
end

--- The id of the i-th claim of a turn: the worker's nonce and the shard's sequence, 27 characters.
function claim_id(spec, turn, i)
  local n = turn.first + (turn.group and 0 or i - 1)
  local low = n % 256
  if spec.high ~= n - low then
    spec.high = n - low
    -- Cut to 32 bits: the id keeps its length when the sequence is past 2^40, and the nonce makes it unique.
    spec.prefix = spec.nonce .. '.' .. string.format('%08x', spec.high / 256 % 4294967296)
  end
  return spec.prefix .. HEX[low]
end

--- Note the starts of a turn in the log of a lane that has a rate.
local function log_starts(n, spec, turn)
  local starts = {}
  for i = 1, turn.n do
    starts[2 * i - 1] = now
    starts[2 * i] = claim_id(spec, turn, i) .. ' ' .. turn.jobs[2 * i - 1]
  end
  call('ZREMRANGEBYSCORE', K .. 'g:' .. n.path, '-inf', now - n.rw)
  many('ZADD', K .. 'g:' .. n.path, starts)
  call('PEXPIRE', K .. 'g:' .. n.path, n.rw + 1000)
end

--- What the walk found at its end may not start, or is not there: put the index right, and look again unless
-- this is all that the session serves.
local function dead_end(spec, steps)
  for i = #steps, 1, -1 do
    if steps[i].own then settle(steps[i].parent, '') else place(steps[i].node.path) end
  end
  if spec.only and not call('ZSCORE', K .. 'i:', spec.only.seg) then return nil end
  return 0
end

--- Of jobs just popped, those of stopped tasks go to wait with their task: no turn, start or unit is spent on them.
local function sift(spec, queue, path, jobs)
  local ids, kept = {}, {}
  for i = 1, #jobs, 2 do ids[#ids + 1] = jobs[i] end
  local recs = hmget(K .. 'j:' .. queue, ids)
  for i = 1, #ids do
    local job = recs[i] and parse(recs[i])
    local task = job and option(job, 'n')
    if task and task_stopped(task) then
      put_parked(queue, ids[i], job, jobs[2 * i])
      count(path, 'r', -1)
      spec.sifted = spec.sifted + 1
    else
      kept[#kept + 1] = ids[i]
      kept[#kept + 1] = jobs[2 * i]
    end
  end
  return kept
end

--- One turn: take jobs of one lane. Answers how many units were used, or nil when nothing may start.
function take_turn(spec, left, taken)
  local first = spec.only or front_queue(spec.queues)
  if not first then return nil end
  if spec.queues ~= '*' and #spec.queues == 1 then spec.only = first end
  local steps, hollow = descend(first)
  if not steps then return dead_end(spec, { { node = hollow } }) end
  local last = steps[#steps]
  local path = last.node.path
  local room, starts, plain, cap = room_of(steps)
  if left <= spec.ahead and not plain then return nil end
  if room < 1 or starts < 1 then return dead_end(spec, steps) end
  local units = min(spec.units, cap) -- a claim wider than the cap runs alone: else it, and all behind it, never would
  if room < units then return nil end
  local group = spec.members > 1 or spec.units > 1
  local wanted = group and spec.members or min(room, plain and left or left - spec.ahead)
  local limit, level = turn_limit(steps, min(wanted, starts))
  local jobs, next_one = pop_jobs(spec, path, limit, level)
  if meta.trules > 0 then jobs = sift(spec, last.node.queue.path, path, jobs) end
  local k = #jobs / 2
  if k == 0 then return dead_end(spec, steps) end
  if not (next_one and next_one[1]) then idle[path] = true end  -- this may have been its last job
  local used = group and left or k
  take_units(path, group and units or k)
  if group then count(path, 'm', k - units) end
  count(path, 'r', -k)
  local turn = { queue = last.node.queue.path, path = path, n = k, jobs = jobs, first = next_seq(group and 1 or k),
    group = group, units = units, uncapped = meta.capver, ends = 0, common = '' }
  taken[#taken + 1] = turn
  for i = 1, #steps do
    if steps[i].node.rn and not steps[i].own then log_starts(steps[i].node, spec, turn) end
    if steps[i].node.cap then turn.uncapped = -1 end
  end
  charge(steps, k, next_one, spec.only)
  return used
end

end
