-- What time alone does, moved along by claims and heartbeats in bounded steps: schedules, lane timers,
-- deadlines, dead sessions, expired dead letters, forgotten lanes.

local runs_of_session, forget_session, sign_of_life, housekeep

do -- a chunk of Lua has at most 200 locals: the others are of this file only

local function promote(limit)
  local due = call('ZRANGEBYSCORE', K .. 'due', '-inf', now, 'LIMIT', 0, limit)
  if not due[1] then return end
  many('ZREM', K .. 'due', due)
  for i = 1, #due do
    local queue, id = split(due[i])
    local rec = call('HGET', K .. 'j:' .. queue, id)
    if rec then
      local job = parse(rec)
      local path = path_of(queue, job.lane)
      count(path, 'd', -1)
      put_ready(queue, id, path, job_score(node(queue), job.prio, i))
    end
  end
end

local function fire_timers()
  local paths = call('ZRANGEBYSCORE', K .. 'timers', '-inf', now, 'LIMIT', 0, 100)
  if not paths[1] then return end
  call('ZREM', K .. 'timers', unpack(paths))
  for i = 1, #paths do
    local left, task = string.match(paths[i], '^\t(%d+)\t(.*)$')
    if task then resume_task(task, tonumber(left))
    else
      dirty[paths[i]] = true
      wake_later(chain(paths[i])[1], 1)
    end
  end
end

local function runs_of(keys)
  local list = {}
  for i = 1, #keys do
    local e = run_of(keys[i])
    if e then
      local queue, id = split(keys[i])
      list[#list + 1] = { key = keys[i], queue = queue, id = id, e = e }
    end
  end
  return list
end

--- Runs whose claims died: their jobs go back, or fail when their budget is spent.
local function reap_runs(list, field)
  end_runs(list)
  for i = 1, #list do
    local run = list[i]
    local rec = call('HGET', K .. 'j:' .. run.queue, run.id)
    if rec then
      local kind = field or (run.e.c[5] == 't' and TIMEOUT or STALL)
      local note = kind == TIMEOUT and 'TimeoutError' or 'StallError'
      local text = kind == TIMEOUT and 'the attempt ran past its timeout'
        or 'the worker stopped without a word, or its lease ran out'
      local error = '\2' .. pack({ type = note, message = text, session = run.e.c[1], attempt = run.e.attempt })
      end_badly(run, parse(rec), counts_of(call('HGET', K .. 't:' .. run.queue, run.id)), kind, error, nil, nil, note)
    end
  end
end

--- Up to `limit` of a session's runs, found by walking the index of runs from where the last call stopped.
-- Answers them, and whether all have been seen.
function runs_of_session(session, limit)
  local cursor, list = call('HGET', K .. 'ss:' .. session, 'cursor') or '0', {}
  for _ = 1, 10 do
    local page = call('HSCAN', K .. 'run', cursor, 'COUNT', 100)
    local found = {}
    for i = 1, #page[2], 2 do
      local e = open_entry(page[2][i + 1])
      if e.c[1] == session then
        local queue, id = split(page[2][i])
        found[#found + 1] = { key = page[2][i], queue = queue, id = id, e = own(e) }
      end
    end
    for i = 1, #found do
      if #list == limit then return list, false, cursor end
      list[#list + 1] = found[i]
    end
    cursor = page[1]
    if cursor == '0' then return list, true, cursor end
  end
  return list, false, cursor
end

function forget_session(session)
  call('ZREM', K .. 'dl', session)
  call('SREM', K .. 'sessions', session)
  call('HDEL', K .. 'ss:' .. session, 'cursor')
  call('PEXPIRE', K .. 'ss:' .. session, ANSWER_MS)
end

--- A session whose lease ran out is dead from the first touch on; at most `limit` of its jobs move a call.
local function reap_session(session, limit)
  call('HSET', K .. 'ss:' .. session, 'dead', now)
  meta.died[session] = true
  local list, all, cursor = runs_of_session(session, limit)
  reap_runs(list, STALL)
  if all then forget_session(session) else call('HSET', K .. 'ss:' .. session, 'cursor', cursor) end
  return #list
end

--- After a silence of half a lease (a stall, a restart, a failover) sessions get one full lease to come back (E12).
-- Twice in a row at most while no session beats: or whoever looks in now and then would keep the dead alive for ever.
local function forgive()
  if now - meta.seen <= meta.lease / 2 or meta.seen == 0 or meta.graces == 2 then return end
  meta.grace, meta.graces = now + meta.lease, meta.graces + 1
  call('HSET', K .. 'meta', 'grace', meta.grace, 'graces', meta.graces)
end

--- A session lives: the next silences are again no fault of sessions.
function sign_of_life()
  if meta.graces == 0 then return end
  meta.graces = 0
  call('HDEL', K .. 'meta', 'graces')
end

--- Everything past its deadline, at most `limit` jobs.
local function reap(limit)
  forgive()
  local late = call('ZRANGEBYSCORE', K .. 'dl', '-inf', now, 'LIMIT', 0, limit)
  local jobs, moved = {}, 0
  for i = 1, #late do
    if find(late[i], '/', 1, true) then jobs[#jobs + 1] = late[i]
    elseif now >= meta.grace and moved < limit then moved = moved + reap_session(late[i], limit - moved) end
  end
  if jobs[1] then
    call('ZREM', K .. 'dl', unpack(jobs))
    moved = moved + #jobs
    reap_runs(runs_of(jobs))
  end
  return moved
end

local function forget_lane(path)
  if deltas[path] then return call('ZADD', K .. 'chores', now + 60000, 'i:' .. path) end
  local at, claimed = deserted(path)
  if claimed then at = now + 60000 end
  if not at then return end
  if at > now then return call('ZADD', K .. 'chores', at, 'i:' .. path) end
  call('DEL', K .. 'n:' .. path, K .. 'g:' .. path, K .. 'c:' .. path, K .. 'i:' .. path)
  call('ZREM', K .. 'timers', path)
  local parent, seg = parent_of(path)
  call('ZREM', K .. 'i:' .. parent, seg)
  dirty[path], idle[path], nodes[path] = nil, nil, nil
  if call('SREM', K .. 'c:' .. parent, seg) == 1 then
    local p = node(parent)
    p.k = p.k - 1
    call('HINCRBY', K .. 'n:' .. parent, 'k', -1)
    if p.k == 0 then call('DEL', K .. 'i:' .. parent) end
    dirty[parent], idle[parent] = true, true
  end
end

local function expire_failed(key)
  local queue, id = split(key)
  local rec = call('HGET', K .. 'j:' .. queue, id)
  if rec and call('ZREM', K .. 'f:' .. queue, id) == 1 then
    local path = path_of(queue, parse(rec).lane)
    count(path, 'f', -1)
    idle[path] = true
    forget_job(queue, id)
  end
end

--- A channel that has been silent for ten minutes is forgotten.
local function forget_answer(channel)
  local stored = call('HGET', K .. 'meta', 'a:' .. channel)
  local at = stored and tonumber(string.match(stored, '^%d+ (%d+) '))
  if not at then return end
  if channel == meta.channel then at = now end -- it is not silent: it calls just now
  if at + ANSWER_MS > now then call('ZADD', K .. 'chores', at + ANSWER_MS, 'a:' .. channel)
  else call('HDEL', K .. 'meta', 'a:' .. channel) end
end

--- Slow chores that nobody waits for: dead letters past their time, lanes that stayed empty, silent channels.
local function chores(limit)
  local list = call('ZRANGEBYSCORE', K .. 'chores', '-inf', now, 'LIMIT', 0, limit)
  if not list[1] then return end
  call('ZREM', K .. 'chores', unpack(list))
  for i = 1, #list do
    local what = sub(list[i], 3)
    local kind = sub(list[i], 1, 1)
    if kind == 'f' then expire_failed(what) elseif kind == 'i' then forget_lane(what) else forget_answer(what) end
  end
end

function housekeep(n)
  promote(max(2 * n, 100))
  fire_timers()
  reap(100)
  chores(max(20, n)) -- as many as the lanes that this call may have emptied
end

end
