-- Moving jobs between their places: ready (z:), scheduled (due), failed (f:), parked (p:), ended (r:).
--
-- A job is in exactly one of: z:<path>, due, run, f:<queue>, p:<task>; its record is in j:<queue> all the while.
-- e:<queue> holds last errors, h:<queue> held twins.

local function put_ready(queue, id, path, score)
  call('ZADD', K .. 'z:' .. path, score, id)
  count(path, 'r', 1)
  dirty[path] = true
  wake_later(queue, 1)
end

local function put_due(queue, id, path, at)
  local key = queue .. '/' .. id
  local first = call('ZRANGE', K .. 'due', 0, 0, 'WITHSCORES')
  call('ZADD', K .. 'due', at, key)
  count(path, 'd', 1)
  if not first[1] or at < tonumber(first[2]) then alarm(at) end
end

--- Put a job where its time says: ready now, or scheduled. `score` keeps an old place in line.
local function put_job(queue, id, job, at, score)
  local path = path_of(queue, job.lane)
  ensure(path)
  if at and at > now then return put_due(queue, id, path, at) end
  put_ready(queue, id, path, score or job_score(node(queue), job.prio))
end

--- Put a job where it waits for somebody who knows its task, with the place in line that it will have then.
local function put_parked(queue, id, job, score)
  local task = option(job, 'n') or ''
  call('ZADD', K .. 'p:' .. task, score, queue .. '/' .. id)
  call('SADD', K .. 'parked', task)
  count(path_of(queue, job.lane), 'p', 1)
end

--- Take a waiting job out of its place: 'r' ready, 'd' scheduled, 'p' parked; nil when it does not wait.
local function take_waiting(queue, id, job)
  local path = path_of(queue, job.lane)
  local key = queue .. '/' .. id
  if call('ZREM', K .. 'z:' .. path, id) == 1 then
    count(path, 'r', -1)
    dirty[path], idle[path] = true, true
    return 'r'
  end
  if call('ZREM', K .. 'due', key) == 1 then
    count(path, 'd', -1)
    idle[path] = true
    return 'd'
  end
  local task = option(job, 'n') or ''
  if call('ZREM', K .. 'p:' .. task, key) == 1 then
    count(path, 'p', -1)
    idle[path] = true
    if call('EXISTS', K .. 'p:' .. task) == 0 then call('SREM', K .. 'parked', task) end
    return 'p'
  end
  return nil
end

local function take_failed(queue, id, job)
  if call('ZREM', K .. 'f:' .. queue, id) == 0 then return false end
  call('ZREM', K .. 'chores', 'f:' .. queue .. '/' .. id)
  local path = path_of(queue, job.lane)
  count(path, 'f', -1)
  idle[path] = true
  return true
end

--- When a lane made at first use that has nothing left may go: now, or when its rules or
-- rate's window end; nil while it has
-- a job in any status, a claim, a child, or a rule without an end (E7).
local function deserted(path)
  local v = call('HMGET', K .. 'n:' .. path, 'r', 'd', 'h', 'f', 'p', 'x', 'k', 's')
  for i = 1, 7 do
    if tonumber(v[i] or 0) > 0 then return nil end
  end
  local s = v[8] and unpack_(v[8]) or {}
  local p, b = rule_active(s.pa), rule_active(s.bl)
  if s.keep == 1 or (p and p.until_ == 0) or (b and b.until_ == 0) then return nil end
  if call('EXISTS', K .. 'z:' .. path) == 1 then return nil end
  local window = call('EXISTS', K .. 'g:' .. path) == 1 and now + (s.rw or 0) or 0
  return max(now, s.nb or 0, p and p.until_ or 0, b and b.until_ or 0, window)
end

--- Lanes that lost something in this call are looked at in a minute, and forgotten when they are empty then.
local function note_idle()
  local list = {}
  for path in pairs(idle) do
    if find(path, '/', 1, true) then
      list[#list + 1] = now + 60000
      list[#list + 1] = 'i:' .. path
    end
  end
  if list[1] then call('ZADD', K .. 'chores', 'NX', unpack(list)) end
end

--- Counts live in t:<queue> only while a job has deviated.
local function keep_counts(queue, id, counts)
  if counts.c or counts.a + counts.f + counts.s + counts.o > 0 then
    call('HSET', K .. 't:' .. queue, id, pack(counts))
  else
    call('HDEL', K .. 't:' .. queue, id)
  end
end

local function forget_job(queue, id)
  call('HDEL', K .. 'j:' .. queue, id)
  call('HDEL', K .. 't:' .. queue, id)
  call('HDEL', K .. 'e:' .. queue, id)
end

-- Outcomes (r:<queue>/<id>): status, generation, time, body; an older generation moves to
-- r:<queue>/<id>\n<gen>: no id contains a line feed.
-- An outcome 'm' points from one generation to the one it was merged into.

local function tell_watchers(key)
  if call('ZCARD', K .. 'watch') == 0 then return end
  if call('ZREM', K .. 'watch', key) == 1 then call('PUBLISH', K .. 'done:' .. key, '1') end
end

local function watched()
  if watching == nil then watching = call('ZCARD', K .. 'watch') > 0 end
  return watching
end

--- Keep how a job ended, for as long as its options say; wake those who wait for it.
local function store_outcome(queue, id, job, status, body)
  local key = queue .. '/' .. id
  local unique = option(job, 'u')
  local keep = option(job, 'k')
  if keep == -1 or unique == -1 then keep = -1 else keep = max(keep, unique, watched() and 60000 or 0) end
  if keep ~= 0 then
    local name = K .. 'r:' .. key
    local free_at = unique == -1 and -1 or unique > 0 and now + unique or 0
    local value = concat({ status, string.format('%.0f %.0f %.0f', job.gen, now, free_at), body }, ' ')
    local old = call('SET', name, value, 'GET', unpack(keep == -1 and {} or { 'PX', keep }))
    if old then
      local gen = string.match(old, '^%a (%d+) ')
      if gen and tonumber(gen) ~= job.gen then call('SET', name .. '\n' .. gen, old, 'PX', ANSWER_MS) end
    end
  end
  if watched() then tell_watchers(key) end
end

--- One generation went on as another: whoever waits for `from` reads `to`.
local function merge_outcome(key, from, to)
  call('SET', K .. 'r:' .. key .. '\n' .. from, string.format('m %.0f %.0f 0 ', to, now), 'PX', 86400000)
end

--- The held twin of an id whose run ended becomes the job (E19).
local function release_held(queue, id)
  local h = call('HGET', K .. 'h:' .. queue, id)
  if not h then return false end
  call('HDEL', K .. 'h:' .. queue, id)
  local twin = unpack_(h)
  local job = parse(twin.rec)
  count(path_of(queue, job.lane), 'h', -1)
  call('HSET', K .. 'j:' .. queue, id, twin.rec)
  put_job(queue, id, job, twin.at)
  return true
end

--- The job of the failure handler (E20): same id, in <queue>-fail, carrying error, counts and the job's own data.
local function enqueue_failure(queue, id, job, counts, error)
  local blob = call('HGET', K .. 'n:' .. queue, 'fh')
  if not blob then return end
  local info = pack({ queue = queue, id = id, lane = job.lane, attempts = counts.a, failures = counts.f,
    stalls = counts.s, timeouts = counts.o, priority = job.prio })
  local payload = '\3' .. struct.pack('>I4', #error) .. error .. struct.pack('>I4', #info) .. info .. payload_of(job)
  local target = queue .. '-fail'
  ensure(target)
  local old = call('HGET', K .. 'j:' .. target, id)
  if old then
    local o = parse(old)
    if not take_waiting(target, id, o) and not take_failed(target, id, o) then id = id .. ':' .. job.gen end
  end
  local opts = blob ~= '' and blob or nil
  local rec = record_of(50, now, next_seq(), '', opts, payload)
  call('HSET', K .. 'j:' .. target, id, rec)
  call('HDEL', K .. 't:' .. target, id)
  put_job(target, id, parse(rec))
end

--- The job ended as failed: it is kept as a dead letter, or only its outcome when a twin takes its place.
local function bury(queue, id, job, counts, error)
  enqueue_failure(queue, id, job, counts, error)
  local keep = option(job, 'd')
  if keep == 0 or call('HEXISTS', K .. 'h:' .. queue, id) == 1 then
    store_outcome(queue, id, job, 'f', error)
    forget_job(queue, id)
    release_held(queue, id)
    return
  end
  call('HSET', K .. 'e:' .. queue, id, error)
  keep_counts(queue, id, counts)
  call('ZADD', K .. 'f:' .. queue, now, id)
  count(path_of(queue, job.lane), 'f', 1)
  if keep ~= -1 then call('ZADD', K .. 'chores', now + keep, 'f:' .. queue .. '/' .. id) end
  tell_watchers(queue .. '/' .. id)
end

--- Put every lane that changed where it belongs, deepest first.
local function settle_dirty()
  if not next(dirty) then return end
  local levels = { {}, {}, {} }
  for path in pairs(dirty) do levels[#chain(path)][path] = true end
  for depth = 3, 1, -1 do
    for path in pairs(levels[depth]) do
      if dirty[path] and node(path).k > 0 then settle(path, '') end
      local parent, seg = parent_of(path)
      if settle(parent, seg) and depth > 1 then levels[depth - 1][parent] = true end
    end
  end
  dirty = {}
end

--- Keep the answer of a numbered call: in meta, next to the sequence, so that both are written at once.
local function add_answer(set, answer)
  set[#set + 1] = 'a:' .. meta.channel
  set[#set + 1] = meta.number .. ' ' .. now .. ' ' .. pack(answer)
  if not meta.known then call('ZADD', K .. 'chores', now + ANSWER_MS, 'a:' .. meta.channel) end
end

--- Write what was only noted: indexes, counters, history, wake-ups, the shard's sequence, the call's answer.
-- Answers the answer, so that a function can end with `return flush(answer)`.
local function flush(answer, seen)
  settle_dirty()
  for path, d in pairs(deltas) do
    for field, by in pairs(d) do
      if by ~= 0 then call('HINCRBY', K .. 'n:' .. path, field, by) end
    end
  end
  local set = {}
  if events[1] then write_history(set) end
  if seq ~= meta.seq then set[#set + 1] = 'seq'; set[#set + 1] = seq end
  if seen then set[#set + 1] = 'seen'; set[#set + 1] = now end
  if meta.channel then add_answer(set, answer) end
  if set[1] then call('HSET', K .. 'meta', unpack(set)) end
  if next(idle) then note_idle() end
  if anybody_waits() then
    for queue, n in pairs(wakes) do wake(queue, n) end
  end
  return answer
end
