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
  call('ZADD', K .. 'due', at, key)
  count(path, 'd', 1)
  meta.alarm = min(meta.alarm, at)
end

--- Put a job where its time says: ready now, or scheduled. `score` keeps an old place in line.
local function put_job(queue, id, job, at, score)
  local path = path_of(queue, job.lane)
  ensure(path)
  if at and at > now then return put_due(queue, id, path, at) end
  put_ready(queue, id, path, score or job_score(node(queue), job.prio))
end

--- Where jobs of a queue wait for somebody who knows their task (p:<queue>/<task>; without a task: '').
local function parking(queue, job) return queue .. '/' .. (option(job, 'n') or '') end

--- Put a job there, with the place in line that it will have then.
local function put_parked(queue, id, job, score)
  local name = parking(queue, job)
  call('ZADD', K .. 'p:' .. name, score, id)
  call('SADD', K .. 'parked', name)
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
  local name = parking(queue, job)
  if call('ZREM', K .. 'p:' .. name, id) == 1 then
    count(path, 'p', -1)
    idle[path] = true
    if call('EXISTS', K .. 'p:' .. name) == 0 then call('SREM', K .. 'parked', name) end
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
  if watching == nil then
    watching = call('ZCARD', K .. 'watch') > 0
    if watching and call('ZCOUNT', K .. 'watch', now, '+inf') == 0 then
      watching = false -- they have given up
      call('DEL', K .. 'watch')
    end
  end
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
    local free_at = status == 'f' and 0 or unique == -1 and -1 or unique > 0 and now + unique or 0 -- failed: free
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

--- A dead letter makes way for a new job of its id: whoever has a handle of that generation still learns its end.
local function outlive(queue, id, job)
  local error = call('HGET', K .. 'e:' .. queue, id) or ''
  local name = string.format('%sr:%s/%s\n%.0f', K, queue, id, job.gen)
  call('SET', name, string.format('f %.0f %.0f 0 ', job.gen, now) .. error, 'PX', ANSWER_MS)
end

--- A new job takes an id that has an outcome: the outcome stays that of its generation, and is not the latest any more.
local function step_aside(queue, id)
  local name = K .. 'r:' .. queue .. '/' .. id
  local gen = string.match(call('GET', name) or '', '^%a (%d+) ')
  if not gen then return end
  call('RENAME', name, name .. '\n' .. gen)
  if call('PTTL', name .. '\n' .. gen) < 0 then call('PEXPIRE', name .. '\n' .. gen, ANSWER_MS) end
end

--- The id for a failure job: the job's own; one that waits or failed there makes way, one that runs is let be.
local function failure_id(target, id, gen)
  while true do
    local old = call('HGET', K .. 'j:' .. target, id)
    if not old then return id end
    local job = parse(old)
    local dead = take_failed(target, id, job)
    if dead then outlive(target, id, job) end
    if dead or take_waiting(target, id, job) then
      forget_job(target, id)
      return id
    end
    id = id .. ':' .. gen
  end
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
  id = failure_id(target, id, job.gen)
  local opts = blob ~= '' and blob or nil
  local rec = record_of(50, now, next_seq(), '', opts, payload)
  mark_bulky(target, rec)
  call('HSET', K .. 'j:' .. target, id, rec)
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
