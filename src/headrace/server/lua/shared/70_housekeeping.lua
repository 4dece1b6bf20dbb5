-- What time alone does, moved along by claims and heartbeats in bounded steps: schedules, lane timers,
-- deadlines, dead sessions, expired dead letters, forgotten lanes.

-- dead    session whose lease ran out -> the lap of the walk through `run` after which all its runs have gone back
-- leases  lease ms -> live sessions that have it
-- grace   lease ms -> when a silence of more than half of it ended
-- meta    dying: how many there are in `dead`; walk and laps: how far the walk is

local runs_of_session, bury_session, count_lease, forgive, forgiven, housekeep

do -- a chunk of Lua has at most 200 locals: the others are of this file only

local function promote(limit)
  local due = call('ZRANGEBYSCORE', K .. 'due', '-inf', now, 'LIMIT', 0, limit)
  local done = {}
  for i = 1, #due do
    if spent() then break end
    local queue, id = split(due[i])
    local rec = read_record(queue, id)
    done[i] = due[i]
    if rec then
      local job = parse(rec)
      local path = path_of(queue, job.lane)
      count(path, 'd', -1)
      put_ready(queue, id, path, job_score(node(queue), job.prio, i - 1))
    end
  end
  many('ZREM', K .. 'due', done)
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
      local kind = field or (run.e.c[5] == 't' and not orphaned(run.e.c) and TIMEOUT or STALL)
      local note = kind == TIMEOUT and 'TimeoutError' or 'StallError'
      local text = kind == TIMEOUT and 'the attempt ran past its timeout'
        or 'the worker stopped without a word, or its lease ran out'
      local error = '\2' .. pack({ type = note, message = text, session = run.e.c[1], attempt = run.e.attempt })
      end_badly(run, parse(rec), counts_of(call('HGET', K .. 't:' .. run.queue, run.id)), kind, error, nil, nil, note)
    end
  end
end

--- As many of these runs as one call may move: the records of their jobs will be read. At least one.
local function affordable(list)
  local few = {}
  for i = 1, #list do
    if i > 1 and spent() then break end
    meta.read = meta.read + own(list[i].e).size
    few[i] = list[i]
  end
  return few
end

--- Those runs of a page of the index that are of the sessions in `wanted`.
local function runs_in(page, wanted)
  local found = {}
  for i = 1, #page, 2 do
    local e = open_entry(page[i + 1])
    if wanted[e.c[1]] then
      local queue, id = split(page[i])
      found[#found + 1] = { key = page[i], queue = queue, id = id, e = own(e) }
    end
  end
  return found
end

--- Walk the index of runs from a cursor on, ten pages at most, and gather up to `limit` runs of the sessions in
-- `wanted`. Answers them, where to go on, and whether the end was reached.
local function walk_runs(wanted, cursor, limit)
  local list = {}
  for _ = 1, 10 do
    local page = call('HSCAN', K .. 'run', cursor, 'COUNT', 100)
    local found = runs_in(page[2], wanted)
    for i = 1, #found do
      if #list == limit then return list, cursor, false end -- this page again
      list[#list + 1] = found[i]
    end
    cursor = page[1]
    if cursor == '0' then return list, cursor, true end
  end
  return list, cursor, false
end

--- Up to `limit` runs of a session that closes, from where its last call stopped; answers them, whether all have been
-- seen, and where to go on.
function runs_of_session(session, limit)
  local cursor = call('HGET', K .. 'ss:' .. session, 'cursor') or '0'
  local list, reached, ended = walk_runs({ [session] = true }, cursor, limit)
  local few = affordable(list)
  if #few < #list then return few, false, cursor end
  return list, ended, reached
end

--- One more session has this lease, or (-1) one less.
function count_lease(lease, by)
  if call('HINCRBY', K .. 'leases', lease, by) <= 0 then
    call('HDEL', K .. 'leases', lease)
    call('HDEL', K .. 'grace', lease)
  end
end

local function forget_session(session)
  call('ZREM', K .. 'dl', session)
  call('SREM', K .. 'sessions', session)
  call('HDEL', K .. 'ss:' .. session, 'cursor')
  call('PEXPIRE', K .. 'ss:' .. session, ANSWER_MS)
end

--- One more session has perhaps runs that are to go back, or (-1) one less.
local function count_dying(by)
  meta.dying = meta.dying + by
  if meta.dying > 0 then call('HSET', K .. 'meta', 'dying', meta.dying)
  else call('HDEL', K .. 'meta', 'dying', 'walk', 'laps') end
end

--- A session is done with: all its runs have gone back.
function bury_session(session)
  if call('HDEL', K .. 'dead', session) == 1 then count_dying(-1) end
  forget_session(session)
end

--- A session whose lease ran out is dead from the first touch on; its runs are moved by the next walks.
local function let_die(session, laps)
  call('HSET', K .. 'ss:' .. session, 'dead', now)
  call('ZREM', K .. 'dl', session)
  if call('HSET', K .. 'dead', session, laps) == 1 then count_dying(1) end
  meta.died[session] = true
end

--- Move up to `limit` jobs of dead sessions, found by one walk for all of them. A session that died while a lap was
-- under way is done with when the next lap ends.
local function reap_dead(limit)
  if meta.dying == 0 then return end
  local dead = call('HGETALL', K .. 'dead')
  if #dead / 2 ~= meta.dying then count_dying(#dead / 2 - meta.dying) end -- a stranger's hand
  if meta.dying == 0 then return end
  local wanted = {}
  for i = 1, #dead, 2 do wanted[dead[i]] = tonumber(dead[i + 1]) end
  local v = call('HMGET', K .. 'meta', 'walk', 'laps')
  local cursor, laps = v[1] or '0', tonumber(v[2] or 0)
  local list, reached, ended = walk_runs(wanted, cursor, limit)
  local few = affordable(list)
  if #few < #list then reached, ended = cursor, false end
  reap_runs(few, STALL)
  if ended then
    laps = laps + 1
    for session, lap in pairs(wanted) do
      if lap <= laps then bury_session(session) end
    end
  end
  if meta.dying > 0 then call('HSET', K .. 'meta', 'walk', reached, 'laps', laps) end
end

--- After a silence of half its lease (a stall, a restart, a failover) a session gets one full lease to come back (E12).
function forgive()
  local silence = now - meta.seen
  if meta.seen == 0 or silence < 10 or meta.forgave then return end
  meta.forgave = true
  for _, lease in ipairs(call('HKEYS', K .. 'leases')) do
    if silence > tonumber(lease) / 2 then call('HSET', K .. 'grace', lease, now) end
  end
end

--- Until when a session that is late may come back, because the silence was perhaps none of its fault; or nil.
function forgiven(lease)
  local woke = call('HGET', K .. 'grace', lease)
  local ends = woke and tonumber(woke) + tonumber(lease)
  return ends and now < ends and ends or nil
end

--- Sessions past their deadline, those that are not forgiven: dead.
local function reap_sessions(late)
  local laps
  for i = 1, #late do
    local s = call('HMGET', K .. 'ss:' .. late[i], 'lease', 'dead', 'graces')
    -- Once, until it beats: or whoever looks in now and then would keep the dead alive for ever.
    local ends = s[1] and not s[3] and forgiven(s[1])
    if ends then
      call('ZADD', K .. 'dl', ends, late[i])
      call('HSET', K .. 'ss:' .. late[i], 'graces', 1)
    else
      if not laps then
        local v = call('HMGET', K .. 'meta', 'walk', 'laps')
        laps = tonumber(v[2] or 0) + ((v[1] or '0') == '0' and 1 or 2)
      end
      if s[1] and not s[2] then count_lease(s[1], -1) end
      let_die(late[i], laps)
    end
  end
end

--- Everything past its deadline, at most `limit` jobs.
local function reap(limit)
  forgive()
  local late = call('ZRANGEBYSCORE', K .. 'dl', '-inf', now, 'LIMIT', 0, limit)
  local jobs, sessions = {}, {}
  for i = 1, #late do
    if find(late[i], '/', 1, true) then jobs[#jobs + 1] = late[i] else sessions[#sessions + 1] = late[i] end
  end
  reap_sessions(sessions)
  if jobs[1] then
    local runs = runs_of(jobs)
    local few = affordable(runs)
    local left = {}
    for i = #few + 1, #runs do left[runs[i].key] = true end
    for i = 1, #jobs do
      if not left[jobs[i]] then call('ZREM', K .. 'dl', jobs[i]) end
    end
    reap_runs(few)
  end
  reap_dead(max(10, limit - #jobs)) -- they get their share however many leases by hand run out
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
  local rec = read_record(queue, id)
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
  for i = 1, #list do
    if i > 1 and spent() then return end
    call('ZREM', K .. 'chores', list[i])
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
