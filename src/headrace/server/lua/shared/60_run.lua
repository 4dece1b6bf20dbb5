-- Runs: what holds while a job is claimed, and taking that down again.
--
-- run            "queue/id" -> packed entry (fields below)     sj:<session>  the session's running jobs
-- dl             deadlines: a session, or "queue/id" of a lease by hand or a timeout
-- kc             claim -> members left, only for claims with several members
-- entry: 1 claim 2 session 3 path 4 started 5 score 6 attempt 7 queued 8 gen 9 size 10 deadline or 0
--        11 kind of deadline ('l' lease, 't' timeout, '' none) 12 holder of units ('' itself) 13 units 14 packed options or ''

local function run_of(key)
  local r = call('HGET', K .. 'run', key)
  return r and unpack_(r)
end

--- The names under which a claim's units stand in the sets x:<path>.
local function unit_names(holder, units)
  if units == 1 then return { holder } end
  local names = {}
  for i = 1, units do names[i] = holder .. '\n' .. i end
  return names
end

--- Take down many runs at once: `list` holds {key, entry}. Nothing is said about what becomes of the jobs.
local function end_runs(list)
  local keys, by_session, by_path, deadlines = {}, {}, {}, {}
  for i = 1, #list do
    local key, e = list[i][1], list[i][2]
    keys[i] = key
    local s = by_session[e[2]]
    if not s then s = {}; by_session[e[2]] = s end
    s[#s + 1] = key
    if e[10] ~= 0 then deadlines[#deadlines + 1] = key end
    if e[12] == '' or call('HINCRBY', K .. 'kc', e[1], -1) == 0 then
      local holder = e[12]
      if holder == '' then holder = select(2, split(key)) else call('HDEL', K .. 'kc', e[1]) end
      local p = by_path[e[3]]
      if not p then p = {}; by_path[e[3]] = p end
      if e[13] == 1 then p[#p + 1] = holder
      else for _, name in ipairs(unit_names(holder, e[13])) do p[#p + 1] = name end end
    end
  end
  many('HDEL', K .. 'run', keys)
  for session, jobs in pairs(by_session) do
    many('SREM', K .. 'sj:' .. session, jobs)
    if call('EXISTS', K .. 'sc:' .. session) == 1 then many('SREM', K .. 'sc:' .. session, jobs) end
  end
  many('ZREM', K .. 'dl', deadlines)
  local up = {}
  for path, names in pairs(by_path) do
    local c = chain(path)
    for i = 1, #c do
      local all = up[c[i]]
      if not all then up[c[i]] = #c == i and names or { unpack(names) }
      else for j = 1, #names do all[#all + 1] = names[j] end end
    end
  end
  for path, names in pairs(up) do
    many('SREM', K .. 'x:' .. path, names)
    local n = node(path)
    n.running = nil
    if n.cap then
      dirty[path] = true
      wake_later(n.queue.path, #names)
    end
    idle[path] = true
  end
  for queue in pairs(up) do
    if not find(queue, '/', 1, true) and call('EXISTS', K .. 'pr:' .. queue) == 1 then
      for i = 1, #keys do
        local q, id = split(keys[i])
        if q == queue then call('HDEL', K .. 'pr:' .. queue, id) end
      end
    end
  end
end

--- A start that came to nothing gives its entry in the rate logs back.
local function return_start(e, id)
  local c = chain(e[3])
  for i = 1, #c do
    if node(c[i]).rn then
      call('ZREM', K .. 'g:' .. c[i], e[1] .. ' ' .. id)
      dirty[c[i]] = true
    end
  end
end
