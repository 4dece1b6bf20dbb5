-- The end of a call: what was only noted until then is written (indexes, counters, history, wake-ups, answer).

--- When a lane made at first use that has nothing left may go: now, or when its rules or rate's window end; nil
-- while it has a job in any status, a claim, a child, or a rule without an end (E7). The second value is true when
-- only claims keep it: their end does not say so again.
local function deserted(path)
  local v = call('HMGET', K .. 'n:' .. path, 'r', 'd', 'h', 'f', 'p', 'x', 'k', 's')
  for i = 1, 7 do
    if i ~= 6 and tonumber(v[i] or 0) > 0 then return nil end
  end
  local s = v[8] and unpack_(v[8]) or {}
  local p, b = rule_active(s.pa), rule_active(s.bl)
  if s.keep == 1 or (p and p.until_ == 0) or (b and b.until_ == 0) then return nil end
  if call('EXISTS', K .. 'z:' .. path) == 1 then return nil end
  if tonumber(v[6] or 0) > 0 then return nil, true end
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
    if meta.alarm < math.huge then alarm(meta.alarm) end
  end
  return answer
end
