-- What becomes of a job whose run ended: back in line, failed, cancelled, done.

local STALL, TIMEOUT = 's', 'o'

local function attempt_event(kind, queue, id, e, note, size_out)
  local c = chain(e[3])
  event(kind, queue, id, e[8], sub(e[3], #c[1] + 2), e[6], e[7], e[4], e[2], e[9], size_out or 0, note)
end

--- Exponential backoff between the bounds, with jitter drawn from what the server already has at hand.
local function backoff(job, failures)
  local low, high = option(job, 'b'), option(job, 'x')
  local wait = low * 2 ^ min(failures - 1, 40)
  if high ~= -1 then wait = min(wait, high) end
  local spread = (seq * 7919 + now * 104729) % 1000 / 1000
  return floor(max(low, wait * (0.75 + 0.25 * spread)))
end

--- Back in line after a run that did not end the job: counts are kept, a held twin is laid over it.
local function back(queue, id, e, job, counts, at, score)
  counts.a = e[6]
  local new
  new, at = absorb_held(queue, id, job, counts, at)
  if new ~= job then score = nil end
  keep_counts(queue, id, counts)
  put_job(queue, id, new, at, score)
end

local function end_cancelled(queue, id, e, job, note)
  attempt_event('cancelled', queue, id, e, note)
  store_outcome(queue, id, job, 'c', note or '')
  forget_job(queue, id)
  release_held(queue, id)
end

--- An attempt ended badly: `field` of the counts ('f', 's' or 'o') has a budget; beyond it the job fails.
-- Answers 'R' (goes back), 'F' (failed) or 'X' (was marked as cancelled).
local function end_badly(queue, id, e, job, counts, field, error, at, final, note)
  if counts.c then
    end_cancelled(queue, id, e, job, counts.c)
    return 'X'
  end
  counts[field] = counts[field] + 1
  local budget = option(job, field)
  local kind = field == STALL and 'stalled' or field == TIMEOUT and 'timeout' or 'failed'
  attempt_event(kind, queue, id, e, note)
  if final or (budget ~= -1 and counts[field] > budget) then
    counts.a = e[6]
    bury(queue, id, job, counts, error)
    return 'F'
  end
  call('HSET', K .. 'e:' .. queue, id, error)
  local score = field == STALL and e[5] or nil
  back(queue, id, e, job, counts, at or (field == STALL and 0 or now + backoff(job, counts[field])), score)
  return 'R'
end

--- Give a claim back: nothing counted, the old place in line, unless it is to wait.
local function end_released(queue, id, e, job, counts, at)
  if counts.c then
    end_cancelled(queue, id, e, job, counts.c)
    return 'X'
  end
  return_start(e, id)
  attempt_event('released', queue, id, e)
  e[6] = e[6] - 1
  back(queue, id, e, job, counts, at, e[5])
  return 'L'
end

--- No handler knows the job's task: it waits with its task until a session comes that does (E15).
local function end_parked(queue, id, e, job, counts)
  return_start(e, id)
  counts.a = e[6] - 1
  local task = option(job, 'n') or ''
  local new = absorb_held(queue, id, job, counts, 0)
  keep_counts(queue, id, counts)
  call('ZADD', K .. 'p:' .. task, e[5], queue .. '/' .. id)
  call('SADD', K .. 'parked', task)
  count(path_of(queue, new.lane), 'p', 1)
  return 'P'
end

--- Whether a rule stops a task (E21).
local function task_stopped(task)
  local rule = meta.trules > 0 and call('HGET', K .. 'rules', task)
  if not rule then return false end
  rule = unpack_(rule)
  return (rule_active(rule.p) or rule_active(rule.b)) ~= nil
end

--- Parked jobs of these tasks come back, at most `limit`.
local function unpark(tasks, limit)
  if call('SCARD', K .. 'parked') == 0 then return end
  for i = 1, #tasks do
    local name = K .. 'p:' .. tasks[i]
    local list = task_stopped(tasks[i]) and {} or call('ZRANGE', name, 0, limit - 1, 'WITHSCORES')
    for j = 1, #list, 2 do
      local queue, id = split(list[j])
      local rec = call('HGET', K .. 'j:' .. queue, id)
      call('ZREM', name, list[j])
      if rec then
        local job = parse(rec)
        count(path_of(queue, job.lane), 'p', -1)
        put_job(queue, id, job, 0, tonumber(list[j + 1]))
      end
    end
    limit = limit - #list / 2
    if call('EXISTS', name) == 0 then call('SREM', K .. 'parked', tasks[i]) end
    if limit <= 0 then return end
  end
end
