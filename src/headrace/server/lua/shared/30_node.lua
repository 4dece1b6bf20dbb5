-- Nodes: the tree of lanes. A node is a queue, a group or a lane; its path is "queue/group/lane".
--
-- n:<path>  hash: s settings (msgpack, below), k number of children, e 1 (it exists), v "level turn" where the last
--           entry of its index left,
--           t and o: "level turn" of the node, and of its own jobs beside children, kept while out of the index,
--           counters d h f p of it and what is below, x units of live claims likewise, m running jobs less those
--           units (claims of several), r ready jobs below it (its own are in z:),
--           fh options of failure jobs (queues)
-- settings  c cap, rn/rw rate and window, p priority, w weight, q quantum, nb not before, pa/bl pause and block,
--           ag/bt aging and birth, big 1 (queues: see mark_bulky), keep 1 (made by hand: stays while empty)
-- z:<path>  own ready jobs
-- i:<path>  eligible children       c:<path>  all children        g:<path>  the last starts (rate)
-- timers    path -> when time alone will change what may run there
--
-- A child stands in its parent's index exactly while it has something that may start. `settle` is the one
-- place that puts it there, moves it and takes it away.

local UNIT = 60          -- what one job costs a lane of weight 1 in turns
local QUANTUM = 4

local function ready_below(path) return tonumber(call('HGET', K .. 'n:' .. path, 'r') or 0) end

--- Jobs that have a place in line in a queue: those that wait, and those that may come back to theirs.
local function places_taken(queue)
  return call('ZCARD', K .. 'z:' .. queue) + ready_below(queue) + tonumber(call('HGET', K .. 'n:' .. queue, 'x') or 0)
    + tonumber(call('HGET', K .. 'n:' .. queue, 'p') or 0)
end

--- A pause or block, if it is in force now.
local function rule_active(rule)
  if rule and (rule.until_ == 0 or rule.until_ > now) then return rule end
  return nil
end

local function save_settings(path, s)
  if next(s) then call('HSET', K .. 'n:' .. path, 's', pack(s)) else call('HDEL', K .. 'n:' .. path, 's') end
end

--- A queue that has seen a record beyond this is marked, for good: its claims count bytes, to stay within 1 MiB a
-- call (E25). Whatever writes a record marks.
local BULKY = 10000

--- Aging counts times from the queue's birth, so that scores stay small; an idle queue is born again.
local function rejuvenate(n)
  if n.aging and now - n.birth > 86400000 and places_taken(n.path) == 0 then
    n.birth, n.settings.bt = now, now
    save_settings(n.path, n.settings)
  end
end

local function node(path)
  local n = nodes[path]
  if n then return n end
  local v = call('HMGET', K .. 'n:' .. path, 's', 'k', 'e', 't', 'o', 'x')
  n = { path = path, k = tonumber(v[2] or 0), exists = v[3], t = v[4], o = v[5], nb = 0, weight = 1, quantum = QUANTUM,
    running = tonumber(v[6] or 0) + (deltas[path] and deltas[path].x or 0) }
  if v[1] then
    local s = unpack_(v[1])
    n.settings, n.cap, n.rn, n.rw, n.prio, n.pa, n.bl = s, s.c, s.rn, s.rw, s.p, s.pa, s.bl
    n.weight, n.quantum, n.nb, n.aging, n.birth, n.bulky = s.w or 1, s.q or QUANTUM, s.nb or 0, s.ag, s.bt, s.big
  end
  nodes[path] = n
  local at = find(path, '/', 1, true)
  n.queue = at and node(sub(path, 1, at - 1)) or n
  n.band = n.queue.aging and AGED or BAND
  return n
end

--- Make sure that a node and its ancestors exist; they are in their parents' sets of children from then on.
local function ensure(path)
  if node(path).exists then return end
  local c = chain(path)
  for i = 1, #c do
    local n = node(c[i])
    if not n.exists then
      n.exists = true
      call('HSET', K .. 'n:' .. c[i], 'e', 1)
    end
    local parent = c[i - 1] or ''
    local seg = i == 1 and c[1] or sub(c[i], #parent + 2)
    if call('SADD', K .. 'c:' .. parent, seg) == 1 and i > 1 then
      local p = node(parent)
      p.k = p.k + 1
      call('HINCRBY', K .. 'n:' .. parent, 'k', 1)
      if p.k == 1 then dirty[parent] = true end
    end
  end
end

local function mark_bulky(queue, rec)
  if #rec <= BULKY then return end
  local n = node(queue)
  if n.bulky then return end
  n.settings = n.settings or {}
  n.bulky, n.settings.big = true, 1
  ensure(queue)
  save_settings(queue, n.settings)
end

--- Units of claims start under a path whose nodes are loaded: counted at each of its levels.
local function take_units(path, units)
  count(path, 'x', units)
  local c = chain(path)
  for i = 1, #c do nodes[c[i]].running = nodes[c[i]].running + units end
end

--- Starts left in the window that ends now (exact: a log of the last starts).
local function tokens(n)
  return n.rn - call('ZCOUNT', K .. 'g:' .. n.path, '(' .. (now - n.rw), '+inf')
end

--- When the next start will be possible, for a lane whose rate is spent.
local function token_at(n)
  local over = 0 - tokens(n)  -- not -tokens(n): Redis 7 reads "-0" as no integer
  local e = call('ZRANGEBYSCORE', K .. 'g:' .. n.path, '(' .. (now - n.rw), '+inf', 'WITHSCORES', 'LIMIT', over, 1)
  return tonumber(e[2]) + n.rw
end

--- When a rule in force ends by itself; 0 without a rule.
local function rule_end(rule)
  if not rule then return 0 end
  return rule.until_ == 0 and math.huge or rule.until_
end

--- Why nothing may start under this node now, and when time alone ends that (nil: time does not).
local function barrier(n)
  if n.pa or n.bl then
    local p, b = rule_active(n.pa), rule_active(n.bl)
    if p or b then
      local ends = max(rule_end(p), rule_end(b))
      return b and 'blocked' or 'paused', ends < math.huge and ends or nil
    end
  end
  if n.cap and n.running >= n.cap then return 'cap' end
  if n.nb > now then return 'not_before', n.nb end
  if n.rn and tokens(n) <= 0 then return 'rate', token_at(n) end
  return nil
end

local function first_job(path) return call('ZRANGE', K .. 'z:' .. path, 0, 0, 'WITHSCORES') end
local function first_child(path) return call('ZRANGE', K .. 'i:' .. path, 0, 0, 'WITHSCORES') end

--- The priority of the job that would go first under a node.
local function head_prio(n)
  while n.k > 0 do
    local e = first_child(n.path)
    if not e[1] then return nil end
    if e[1] == '' then break end
    n = node(n.path .. '/' .. e[1])
  end
  local e = first_job(n.path)
  return e[1] and job_prio(n.queue, tonumber(e[2]))
end

--- The level at which a node stands in its parent's index, or nil when it has nothing that may start.
-- The second value is the time when that may change by itself. `first` spares reading its first job again.
local function level_of(n, first)
  local e = n.k > 0 and first_child(n.path) or first or first_job(n.path)
  if not e[1] then return nil end
  local why, ends = barrier(n)
  if why then return nil, ends end
  if n == n.queue then
    if n.prio then return 100 - n.prio end
    if n.aging then return 100 - (head_prio(n) or 50) end
    return floor(tonumber(e[2]) / BAND)
  end
  local level
  if n.k > 0 then level = floor(tonumber(e[2]) / n.band) else level = job_level(n.queue, tonumber(e[2])) end
  if n.prio then
    if n.queue.aging then return max(0, level + head_prio(n) - n.prio) end
    return 100 - n.prio
  end
  return level
end

--- The turn that a level has come to, where who enters it now starts: that of its first entry; when it has none,
-- where the last one left it.
local function turn_of_level(parent, level, band)
  local index, from, to = K .. 'i:' .. parent, level * band, '(' .. (level + 1) * band
  local e = call('ZRANGEBYSCORE', index, from, to, 'WITHSCORES', 'LIMIT', 0, 1)
  if e[1] then return tonumber(e[2]) - level * band end
  local last = call('HGET', K .. 'n:' .. parent, 'v')
  local l, turn = string.match(last or '', '^(%d+) (%d+)$')
  return tonumber(l) == level and tonumber(turn) or 0
end

--- Time alone will change something at `at`: `flush` sees that somebody who waits is awake by then.
local function set_timer(name, at)
  call('ZADD', K .. 'timers', at, name)
  meta.alarm = min(meta.alarm, at)
end

--- Put one entry of a parent's index where it belongs: `seg` names a child, '' the parent's own jobs.
-- `charge` is what the entry pays for jobs just taken; `score` and `first` (where it stands, and its first job)
-- spare reading them. Answers true when what is above may have to change too.
local function settle(parent, seg, charge, score, first)
  local index, own = K .. 'i:' .. parent, seg == ''
  local n, level, ends, band
  if own then
    n = node(parent)
    local e = first or first_job(parent)
    level = e[1] and job_level(n.queue, tonumber(e[2]))
    band = n.band
  else
    n = node(parent == '' and seg or parent .. '/' .. seg)
    level, ends = level_of(n, first)
    band = parent == '' and BAND or n.band
    if ends then set_timer(n.path, ends) end
  end
  score = score or call('ZSCORE', index, seg)
  local was, turn
  if score then
    score = tonumber(score)
    was = floor(score / band)
    turn = score - was * band + (charge or 0)
  end
  if not level then
    if not score then return false end
    call('ZREM', index, seg)
    local field = own and 'o' or 't'
    n[field] = string.format('%.0f %.0f', was, turn)
    call('HSET', K .. 'n:' .. n.path, field, n[field])
    if turn > 0 then call('HSET', K .. 'n:' .. parent, 'v', n[field]) end
    return true
  end
  if was ~= level then
    turn = turn_of_level(parent, level, band)
    local kept = not score and (own and n.o or n.t)
    if kept then
      local l, t = string.match(kept, '^(%d+) (%d+)$')
      if tonumber(l) == level then
        -- Nobody is ever ahead by more than one turn: what is, is of before the level's own turn was forgotten.
        local one = max(own and QUANTUM or n.quantum, own and 1 or 1 / n.weight) * UNIT + 1
        turn = max(turn, min(tonumber(t), floor(turn + one)))
      end
    end
  end
  local new = level * band + min(turn, band - 1)
  if new == score then return n.queue.aging ~= nil end -- there the priority of who goes first may have changed
  call('ZADD', index, new, seg)
  return true
end

local function parent_of(path)
  local c = chain(path)
  local parent = c[#c - 1] or ''
  return parent, parent == '' and path or sub(path, #parent + 2)
end

--- A node may have become eligible, moved or stopped being so: put it right, and its ancestors with it.
local function place(path)
  while path ~= '' do
    local parent, seg = parent_of(path)
    if not settle(parent, seg) then return end
    path = parent
  end
end
