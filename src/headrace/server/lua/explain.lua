-- Why a job is not running, and since when: every reason that holds now.
-- Flags: no-writes
-- Keys: {tag}meta
-- Arguments: queue, id, generation (0: the latest)
-- Replies: {status, msgpack list of reasons}: maps with code and what belongs to it, times in ms
-- Events: none
begin(keys)
local queue, id = args[1], args[2]
local seen = look_at(queue, id, tonumber(args[3]))
local status, reasons = seen[1], {}
local function say(code, about)
  about.code = code
  reasons[#reasons + 1] = about
end

--- A rule in force on a node: blocks before pauses.
local function say_rule(path, blob, code)
  local r = rule_active(blob)
  if not r then return end
  say(code, { path = path, who = r.who, why = r.why, since = r.since, ends = r.until_ > 0 and r.until_ or nil })
end

--- Up to ten jobs that run under a path: those found among the first thousand runs.
local function holders_of(path)
  local holders, cursor = {}, '0'
  for _ = 1, 10 do
    local page = call('HSCAN', K .. 'run', cursor, 'COUNT', 100)
    for i = 1, #page[2], 2 do
      local at = open_entry(page[2][i + 1]).c[2]
      if at == path or sub(at, 1, #path + 1) == path .. '/' then
        holders[#holders + 1] = select(2, split(page[2][i]))
      end
      if #holders == 10 then return holders end
    end
    cursor = page[1]
    if cursor == '0' then break end
  end
  return holders
end

local function say_level(path)
  local n = node(path)
  say_rule(path, n.bl, 'blocked')
  say_rule(path, n.pa, 'paused')
  if n.cap and n.running >= n.cap then
    say('cap', { path = path, cap = n.cap, running = n.running, holders = holders_of(path) })
  end
  if n.nb > now then say('not_before', { path = path, ends = n.nb }) end
  if n.rn and tokens(n) <= 0 then say('rate', { path = path, rate = n.rn, window = n.rw, ends = token_at(n) }) end
end

--- Whether any live session or waiter serves the queue.
local function anybody_listens()
  local named = call('ZCARD', K .. 'w:' .. queue) + call('ZCARD', K .. 'w:*')
  if named > 0 and call('ZCOUNT', K .. 'waiters', now, '+inf') > 0 then return true end
  if node(queue).running > 0 then return true end
  for _, session in ipairs(call('SRANDMEMBER', K .. 'sessions', 200)) do
    local v = call('HMGET', K .. 'ss:' .. session, 'serves', 'dead')
    if v[1] and not v[2] then
      local serves = unpack_(v[1]).queues or {}
      if #serves == 0 then return true end
      for i = 1, #serves do
        if serves[i] == queue or serves[i] == '*' then return true end
      end
    end
  end
  return false
end

if status == 'scheduled' then
  say('not_due', { ends = seen[5] })
elseif status == 'held' then
  local e = run_of(queue .. '/' .. id)
  if e then say('twin', { session = e.c[1], since = e.c[3], attempt = e.attempt }) end
elseif status == 'running' then
  local e = run_of(queue .. '/' .. id)
  say('running', { session = e.c[1], since = e.c[3], attempt = e.attempt, ends = e.c[4] > 0 and e.c[4] or nil })
  if seen[9] ~= '' then say('cancelling', { by = seen[9] }) end
elseif status == 'ready' then
  local job = parse(seen[3])
  local path = path_of(queue, job.lane)
  local c = chain(path)
  for i = 1, #c do say_level(c[i]) end
  local task = option(job, 'n')
  local rule = task and meta.trules > 0 and call('HGET', K .. 'rules', task)
  if rule then
    rule = unpack_(rule)
    say_rule('task ' .. task, rule.b, 'blocked')
    say_rule('task ' .. task, rule.p, 'paused')
  end
  if seen[11] == 1 then
    if not (rule and task_stopped(task)) then
      say('no_handler', { task = task or '', queue = queue, since = job.queued })
    end
  else
    local rank = call('ZRANK', K .. 'z:' .. path, id) or 0
    if not anybody_listens() then say('nobody_listens', { queue = queue, since = job.queued }) end
    local parent, seg = parent_of(path)
    local lanes_ahead = parent ~= '' and call('ZRANK', K .. 'i:' .. parent, seg) or 0
    say('position', { path = path, ahead = rank, lanes_ahead = lanes_ahead, since = job.queued })
  end
elseif status == 'stranded' then
  say('stranded', { since = seen[5] })
end
return { status, pack(reasons) }
