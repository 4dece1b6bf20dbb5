-- The ground every function stands on: one call's context, the shard's keys, refusals, numbered answers.
--
-- A call opens the context first, reads and checks, writes, and ends with `flush`, which writes what was only
-- counted until then. Module locals hold the context: the server runs one call at a time.

local FORMAT = 1

-- Lua's and the server's own functions: they exist only while a function runs, not while the library loads.
local call, pack, unpack_, sub, find, byte, floor, concat, max, min

local function borrow()
  call, pack, unpack_ = redis.call, cmsgpack.pack, cmsgpack.unpack
  sub, find, byte, concat, floor = string.sub, string.find, string.byte, table.concat, math.floor
  max, min = math.max, math.min
end

local K           -- the shard's tag, like "{hr:0}": every key starts with it
local now         -- the server's time in milliseconds
local meta        -- the fields of {tag}meta that most calls need
local seq         -- the shard's sequence: order of arrival, generations, claim ids
local nodes, deltas, dirty, wakes, events, chains, idle, commons

--- End the call with a typed error; nothing may have been written before.
local function refuse(code, text) error({ err = 'HR_' .. code .. ' ' .. text }) end

local function begin(keys)
  if not call then borrow() end
  K = sub(keys[1], 1, -5)
  local m = call('HMGET', keys[1], 'format', 'seq', 'hist', 'trules', 'seen', 'grace', 'lease', 'hcount', 'hmax')
  if not m[1] then refuse('NOSHARD', 'shard ' .. K .. ' holds no data: it was never initialised, or the server lost it') end
  if tonumber(m[1]) > FORMAT then
    refuse('UPGRADE', 'the data has format ' .. m[1] .. ', this version reads up to ' .. FORMAT)
  end
  now = clock(K)
  seq = tonumber(m[2])
  meta = { seq = seq, hist = tonumber(m[3] or 1), trules = tonumber(m[4] or 0), seen = tonumber(m[5] or 0),
    grace = tonumber(m[6] or 0), lease = tonumber(m[7] or 10000), hcount = tonumber(m[8] or 0),
    hmax = tonumber(m[9] or 200000) }
  nodes, deltas, dirty, wakes, events, chains, idle, commons = {}, {}, {}, {}, {}, {}, {}, {}
end

local function next_seq(n)
  local first = seq + 1
  seq = seq + (n or 1)
  return first
end

--- Call `name key ...` with a list that may be long: cut so that Lua's stack never overflows.
local function many(name, key, list)
  local n = #list
  if n == 0 then return end
  if n <= 1000 then return call(name, key, unpack(list)) end
  for i = 1, n, 1000 do call(name, key, unpack(list, i, min(i + 999, n))) end
end

--- HMGET with a list of fields of any length.
local function hmget(key, fields)
  local n = #fields
  if n == 0 then return {} end
  if n <= 1000 then return call('HMGET', key, unpack(fields)) end
  local all = {}
  for i = 1, n, 1000 do
    local part = call('HMGET', key, unpack(fields, i, min(i + 999, n)))
    for j = 1, #part do all[i + j - 1] = part[j] end
  end
  return all
end

--- "queue/id" -> queue, id: a queue's name has no slash, an id may.
local function split(key)
  local at = find(key, '/', 1, true)
  return sub(key, 1, at - 1), sub(key, at + 1)
end

--- Every level of a path, outermost first: "q/a/b" -> {"q", "q/a", "q/a/b"}.
local function chain(path)
  local c = chains[path]
  if c then return c end
  c = {}
  local at = find(path, '/', 1, true)
  while at do
    c[#c + 1] = sub(path, 1, at - 1)
    at = find(path, '/', at + 1, true)
  end
  c[#c + 1] = path
  chains[path] = c
  return c
end

local function path_of(queue, lane)
  if lane == '' then return queue end
  return queue .. '/' .. lane
end

--- Count `by` more jobs in a status (a field of the node) at every level of a path; written by `flush`.
-- Ready jobs are counted only at the levels above their own: z:<path> itself says how many stand there.
local function count(path, field, by)
  if by == 0 then return end
  local c = chain(path)
  for i = 1, field == 'r' and #c - 1 or #c do
    local d = deltas[c[i]]
    if not d then d = {}; deltas[c[i]] = d end
    d[field] = (d[field] or 0) + by
  end
end

-- Numbered calls (E13): the same number gets the same answer, a lower one is refused. ---------------------

local ANSWER_MS = 600000

--- The stored answer of a repeated call, or nil when this number is new.
local function recall(channel, number)
  local a = call('GET', K .. 'a:' .. channel)
  if not a then return nil end
  local at = find(a, ' ', 1, true)
  local last, mine = tonumber(sub(a, 1, at - 1)), tonumber(number)
  if mine > last then return nil end
  if mine < last then
    refuse('STALE', 'call ' .. number .. ' of channel ' .. channel .. ' comes after call ' .. sub(a, 1, at - 1))
  end
  return unpack_(sub(a, at + 1))
end

local function remember(channel, number, answer)
  call('SET', K .. 'a:' .. channel, number .. ' ' .. pack(answer), 'PX', ANSWER_MS)
  return answer
end
