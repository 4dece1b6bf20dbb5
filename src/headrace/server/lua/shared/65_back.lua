-- What becomes of a job whose run ended: back in line, failed, cancelled, done.

local STALL, TIMEOUT = 's', 'o'
local LONGEST_WAIT = 31536000000 -- a year, where the options name no bound

--- Exponential backoff between the bounds, with jitter drawn from what differs between jobs that fail together.
local function backoff(job, failures)
  local low, high = option(job, 'b'), option(job, 'x')
  local wait = low * 2 ^ min(failures - 1, 40)
  wait = min(wait, high ~= -1 and high or LONGEST_WAIT)
  local spread = (job.gen * 7919 + now * 104729) % 1000 / 1000
  return floor(max(low, wait * (0.75 + 0.25 * spread)))
end

--- Back in line after a run that did not end the job: counts are kept, a held twin is laid over it.
local function back(run, job, counts, at, score)
  local new
  new, at = absorb_held(run.queue, run.id, job, counts, at)
  if new ~= job then score = nil end
  keep_counts(run.queue, run.id, counts)
  put_job(run.queue, run.id, new, at, score)
end

local function end_cancelled(run, job, note)
  event('c', run, note)
  store_outcome(run.queue, run.id, job, 'c', note or '')
  forget_job(run.queue, run.id)
  release_held(run.queue, run.id)
  return 'X'
end

--- An attempt ended badly: `field` of the counts ('f', 's' or 'o') has a budget; beyond it the job fails.
-- Answers 'R' (goes back), 'F' (failed) or 'X' (was marked as cancelled).
local function end_badly(run, job, counts, field, error, at, final, note)
  if counts.c then return end_cancelled(run, job, counts.c) end
  local e = run.e
  counts.a = e.attempt
  counts[field] = counts[field] + 1
  local budget = option(job, field)
  event(field, run, note)
  if final or (budget ~= -1 and counts[field] > budget) then
    bury(run.queue, run.id, job, counts, error)
    return 'F'
  end
  call('HSET', K .. 'e:' .. run.queue, run.id, error)
  local stalled = field == STALL
  back(run, job, counts, at or (stalled and 0 or now + backoff(job, counts[field])), stalled and e.score or nil)
  return 'R'
end

--- Give a claim back: nothing counted, the old place in line, unless it is to wait.
local function end_released(run, job, counts, at)
  if counts.c then return end_cancelled(run, job, counts.c) end
  return_start(run.e, run.id)
  event('l', run)
  counts.a = run.e.attempt - 1
  back(run, job, counts, at or 0, run.e.score)
  return 'L'
end

--- No handler knows the job's task: it waits with its task until a session comes that does (E15).
local function end_parked(run, job, counts)
  if counts.c then return end_cancelled(run, job, counts.c) end
  return_start(run.e, run.id)
  counts.a = run.e.attempt - 1
  local new, at = absorb_held(run.queue, run.id, job, counts, 0)
  keep_counts(run.queue, run.id, counts)
  if at > now then put_job(run.queue, run.id, new, at)
  else put_parked(run.queue, run.id, new, new == job and run.e.score or job_score(node(run.queue), new.prio)) end
  return 'P'
end
