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
local nodes, deltas, dirty, wakes, events, chains, idle, unpacked, commons = {}, {}, {}, {}, {}, {}, {}, {}, {}
local waiting, watching   -- whether anybody waits for jobs, or for the end of one; asked once a call

--- End the call with a typed error; nothing may have been written before.
local function refuse(code, text) error({ err = 'HR_' .. code .. ' ' .. text }) end

local ANSWER_MS = 600000

--- The answer that was given to this number before, or nil when the number is new.
local function recall(stored)
  meta.known = stored and true or false
  if not stored then return nil end
  local last, at = string.match(stored, '^(%d+) %d+ ()')
  last = tonumber(last)
  local mine = tonumber(meta.number)
  if mine > last then return nil end
  if mine < last then
    refuse('STALE', 'call ' .. meta.number .. ' of channel ' .. meta.channel .. ' comes after call ' .. last)
  end
  return unpack_(sub(stored, at))
end

-- Fields of meta that only some calls need are read together, when the first of them is asked for.
local lazy = { __index = function(m, name)
  local v = call('HMGET', K .. 'meta', 'hist', 'trules', 'seen', 'dying', 'hcount', 'hmax', 'capver')
  m.hist, m.trules, m.seen = tonumber(v[1] or 1), tonumber(v[2] or 0), tonumber(v[3] or 0)
  m.dying, m.died, m.forgave = tonumber(v[4] or 0), {}, false
  m.hcount, m.hmax, m.capver = tonumber(v[5] or 0), tonumber(v[6] or 200000), tonumber(v[7] or 0)
  return rawget(m, name)
end }

--- Open the context of a call. A numbered call names its channel and number: when that number was answered
-- before, the answer is given again (E13), and a lower number than the last is refused.
local function begin(keys, channel, number)
  if not call then borrow() end
  local name = keys[1]
  K = sub(name, 1, -5)
  local m = call('HMGET', name, 'format', 'seq', 'a:' .. (channel or ''), 'aged', 'awake')
  if not m[1] then
    refuse('NOSHARD', 'shard ' .. K .. ' holds no data: it was never initialised, or the server lost it')
  end
  if tonumber(m[1]) > FORMAT then
    refuse('UPGRADE', 'the data has format ' .. m[1] .. ', this version reads up to ' .. FORMAT)
  end
  now = clock(K)
  seq = tonumber(m[2])
  meta = setmetatable({ seq = seq, channel = channel or false, number = number or false, aged = m[4],
    awake = tonumber(m[5] or 0), alarm = math.huge, read = 0 }, lazy)
  waiting, watching = nil, nil
  -- Tables that the last call left empty serve again: making them anew costs as much as a command.
  nodes, chains = {}, {}
  if next(deltas) then deltas = {} end
  if next(dirty) then dirty = {} end
  if next(wakes) then wakes = {} end
  if next(idle) then idle = {} end
  if next(unpacked) then unpacked = {} end
  if next(commons) then commons = {} end
  if events[1] then events = {} end
  if channel then return recall(m[3]) end
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

--- Unpack a text that many entries of one call share: once.
local function unpack_once(packed)
  local v = unpacked[packed]
  if v == nil then
    v = unpack_(packed)
    unpacked[packed] = v
  end
  return v
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
    if d then d[field] = (d[field] or 0) + by else deltas[c[i]] = { [field] = by } end
  end
end
