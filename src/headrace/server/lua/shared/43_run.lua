-- Runs: what holds while a job is claimed, and taking that down again.
--
-- run            "queue/id" -> entry (below)       sj:<session>  the session's running jobs (not of leases by hand)
-- dl             deadlines: a session, or "queue/id" of a lease by hand or a timeout
-- kc             claim -> members left, only for claims with several members
--
-- An entry is built for speed: claim (27 characters), then what all jobs of one turn have in common, then the
-- job's own numbers, then its packed options.
--   common  msgpack: 1 session ('' by hand) 2 path 3 started 4 deadline or 0 5 its kind ('l' lease, 't' timeout,
--           '' none) 6 holder of units ('' the job itself) 7 units
--   own     score attempt queued generation size

local CLAIM = 27
local OWN = '>dI4I6I6I4'

local function common_of(session, path, started, deadline, kind, holder, units)
  local packed = pack({ session, path, started, deadline, kind, holder, units })
  return struct.pack('>I2', #packed) .. packed
end

local function entry_of(claim, common, score, attempt, queued, gen, size, opts)
  return claim .. common .. struct.pack(OWN, score, attempt, queued, gen, size) .. (opts or '')
end

--- Read the claim and the common part of an entry; `own` reads the rest when it is needed.
local function open_entry(raw)
  local n = byte(raw, CLAIM + 1) * 256 + byte(raw, CLAIM + 2)
  local packed = sub(raw, CLAIM + 3, CLAIM + 2 + n)
  local c = commons[packed]
  if not c then
    c = unpack_(packed)
    commons[packed] = c
  end
  return { raw = raw, c = c, at = CLAIM + 3 + n }
end

local function own(e)
  if e.gen then return e end
  local at
  e.score, e.attempt, e.queued, e.gen, e.size, at = struct.unpack(OWN, e.raw, e.at)
  e.opts = at <= #e.raw and sub(e.raw, at) or nil
  e.claim = sub(e.raw, 1, CLAIM)
  return e
end

local function run_of(key)
  local r = call('HGET', K .. 'run', key)
  return r and own(open_entry(r))
end

--- The names under which a claim's units stand in the sets x:<path>.
local function unit_names(holder, units)
  if units == 1 then return { holder } end
  local names = {}
  for i = 1, units do names[i] = holder .. '\n' .. i end
  return names
end

--- Which units a run that ends gives back: its own, or the claim's when it is the claim's last member.
local function free_units(names, run)
  local c = run.e.c
  if c[6] == '' then
    names[#names + 1] = run.id
    return
  end
  local claim = own(run.e).claim
  if call('HINCRBY', K .. 'kc', claim, -1) > 0 then return end
  call('HDEL', K .. 'kc', claim)
  for _, name in ipairs(unit_names(c[6], c[7])) do names[#names + 1] = name end
end

local function release_units(path, names)
  local c = chain(path)
  for i = 1, #c do
    many('SREM', K .. 'x:' .. c[i], names)
    local n = node(c[i])
    n.running = nil
    idle[c[i]] = true
    if n.cap then
      dirty[c[i]] = true
      wake_later(c[1], #names)
    end
  end
end

--- Take down many runs at once: `list` holds {key, queue, id, e}. What becomes of the jobs is not decided here.
local function end_runs(list)
  if not list[1] then return end
  local keys, sessions, paths, deadlines, queues = {}, {}, {}, {}, {}
  for i = 1, #list do
    local run = list[i]
    local c = run.e.c
    keys[i] = run.key
    if c[1] ~= '' then
      local s = sessions[c[1]]
      if not s then s = {}; sessions[c[1]] = s end
      s[#s + 1] = run.key
    end
    if c[4] ~= 0 then deadlines[#deadlines + 1] = run.key end
    local names = paths[c[2]]
    if not names then names = {}; paths[c[2]] = names end
    free_units(names, run)
    local ids = queues[run.queue]
    if not ids then ids = {}; queues[run.queue] = ids end
    ids[#ids + 1] = run.id
  end
  many('HDEL', K .. 'run', keys)
  many('ZREM', K .. 'dl', deadlines)
  for session, jobs in pairs(sessions) do
    many('SREM', K .. 'sj:' .. session, jobs)
    if call('EXISTS', K .. 'sc:' .. session) == 1 then many('SREM', K .. 'sc:' .. session, jobs) end
  end
  for path, names in pairs(paths) do release_units(path, names) end
  for queue, ids in pairs(queues) do
    if call('EXISTS', K .. 'pr:' .. queue) == 1 then many('HDEL', K .. 'pr:' .. queue, ids) end
  end
end

--- A start that came to nothing gives its entry in the rate logs back.
local function return_start(e, id)
  local c = chain(e.c[2])
  for i = 1, #c do
    if node(c[i]).rn then
      call('ZREM', K .. 'g:' .. c[i], own(e).claim .. ' ' .. id)
      dirty[c[i]] = true
    end
  end
end
