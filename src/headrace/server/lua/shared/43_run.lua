-- Runs: what holds while a job is claimed, and taking that down again.
--
-- run            "queue/id" -> entry (below): the one index of what runs, from which all else can be counted
-- marks          "queue/id" -> session, of running jobs marked as cancelled     pr  "queue/id" -> progress
-- dl             deadlines: a session, or "queue/id" of a lease by hand or a timeout
-- kc             claim -> members left, only for claims with several members
--
-- An entry is built for speed: claim (27 characters), then what all jobs of one turn have in common, then the
-- job's own numbers, then its packed options.
--   common  its length(2), then: 1 session ('' by hand) 2 path 3 started 4 deadline or 0 5 its kind ('l' lease,
--           't' timeout, '-' none) 6 1 for a claim with several members or units, else 0 7 units
--           8 the version of the shard's caps when no level of the path had one, else -1
--   own     score attempt queued generation size

local CLAIM = 27
local GRACE = 5000   -- what a worker gets beyond a job's timeout, to end the attempt itself
local COMMON = '>Bc0I2c0I6I6c1BI4i6'
local OWN = '>dI4I6I6I4'
local ENTRY = '>c0c0dI4c0I4c0'

local function common_of(session, path, started, deadline, kind, group, units, uncapped)
  return struct.pack('>I2' .. COMMON, 27 + #session + #path, #session, session, #path, path, started, deadline, kind,
    group, units, uncapped)
end

--- `born` is when the job was queued and its generation: twelve bytes, the same as in its record (`born_of`).
local function entry_of(claim, common, score, attempt, born, size, opts)
  return struct.pack(ENTRY, claim, common, score, attempt, born, size, opts or '')
end

--- What an entry has in common with others of its turn, and where its own part begins.
local function common_in(raw)
  local high, low = byte(raw, CLAIM + 1, CLAIM + 2)
  local own_at = CLAIM + 3 + high * 256 + low
  local text = sub(raw, CLAIM + 3, own_at - 1)
  local common = commons[text]
  if not common then
    common = { struct.unpack(COMMON, text) }
    commons[text] = common
  end
  return common, own_at
end

--- Read the common part of an entry; `own` reads the rest when it is needed.
local function open_entry(raw)
  local common, own_at = common_in(raw)
  return { raw = raw, c = common, at = own_at }
end

local OWN_SIZE = 28

--- The twelve bytes of an entry that say when its job was queued, and its generation.
local function entry_born(e) return sub(e.raw, e.at + 12, e.at + 23) end

--- The packed options of the job, without reading the numbers before them.
local function options_of(e)
  local at = e.at + OWN_SIZE
  return at <= #e.raw and sub(e.raw, at) or nil
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

--- Whether the session that a run belongs to is dead: its writes are refused, also before its runs are moved (E12).
local function orphaned(common)
  local session = common[1]
  if session == '' then return false end
  if meta.died[session] == nil then meta.died[session] = call('HEXISTS', K .. 'ss:' .. session, 'dead') == 1 end
  return meta.died[session]
end

--- Units that a run which ends gives back: a claim's are free with its last member.
local function units_freed(run)
  local c = run.e.c
  if c[6] == 0 then return 1 end
  local claim = own(run.e).claim
  if call('HINCRBY', K .. 'kc', claim, -1) > 0 then return 0 end
  call('HDEL', K .. 'kc', claim)
  return c[7]
end

--- Units are free again. Only levels with a cap may become eligible by that: the others are not even looked at
-- when the claim saw no cap and no cap was set since.
local function free_units(path, units, uncapped)
  count(path, 'x', -units)
  local c = chain(path)
  for i = 1, #c do
    local n = nodes[c[i]]
    if n then n.running = n.running - units
    elseif uncapped ~= meta.capver then n = node(c[i]) end
    if n and n.cap then
      dirty[c[i]] = true
      wake_later(c[1], units)
    end
  end
end

--- Take down many runs at once: `list` holds {key, queue, id, e}. What becomes of the jobs is not decided here.
local function end_runs(list)
  if not list[1] then return end
  local marks, reports = call('HLEN', K .. 'marks'), call('HLEN', K .. 'pr')
  local keys, paths, more, caps, deadlines = {}, {}, {}, {}, {}
  for i = 1, #list do
    local run = list[i]
    local c = run.e.c
    keys[i] = run.key
    if c[4] ~= 0 then deadlines[#deadlines + 1] = run.key end
    local path = c[2]
    local freed = units_freed(run)
    paths[path] = (paths[path] or 0) + freed
    if freed ~= 1 then more[path] = (more[path] or 0) + freed - 1 end
    if caps[path] == nil then caps[path] = c[8] elseif caps[path] ~= c[8] then caps[path] = -1 end
  end
  many('HDEL', K .. 'run', keys)
  many('ZREM', K .. 'dl', deadlines)
  for path, units in pairs(paths) do free_units(path, units, caps[path]) end
  for path, by in pairs(more) do count(path, 'm', by) end
  if marks > 0 then many('HDEL', K .. 'marks', keys) end
  if reports > 0 then many('HDEL', K .. 'pr', keys) end
end

--- A start that came to nothing gives its entry in the rate logs back.
local function return_start(e, id)
  local c = chain(e.c[2])
  for i = 1, #c do
    if node(c[i]).rn then
      call('ZREM', K .. 'g:' .. c[i], own(e).claim .. ' ' .. id)
      dirty[c[i]] = true
      wake_later(c[1], 1)
    end
  end
end
