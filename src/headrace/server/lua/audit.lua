-- Audit one part of the shard, a page at a time: find what a stranger's hand broke, and mend it when asked to.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: part, path or queue, cursor ('' to begin), repair (1 | 0), more
--   types     keys of a foreign type: the shard's own, or those that `more` names              (moved away)
--   known     nodes (their paths follow) that are missing among their parent's children           (put back)
--   jobs      records of a queue that stand in no place, or in several                         (put right)
--   letters   dead letters of a queue that belong to no job                                   (removed)
--   parked    entries of parked tasks that belong to no job                                    (removed)
--   held      twins of a queue whose running one is gone                                       (released)
--   lane      entries of a path that belong to no job                                          (removed)
--   children  entries of the index of a path, and its number of children                       (put right)
--   runs      runs without a job or deadline                                                   (put right)
--   clocks    deadlines and schedules without a run or job                                     (removed)
--   tally     {cursor, msgpack of path -> counts by place} of a queue's records                (only counted)
--   totals    {'', msgpack of counters of `path`}                                               (only read)
--   fix       set counters of a path to what was tallied: old, new, and the totals that its queue must still have
-- Replies: {cursor or '' at the end, a finding in words, ...}
-- Events: none
local part, path, cursor, repair = args[1], args[2], args[3], args[4] == '1'
if part == 'types' and #args < 5 then
  if not call then borrow() end
  local is = call('TYPE', keys[1]).ok
  if is ~= 'hash' and is ~= 'none' then
    if repair then call('RENAME', keys[1], sub(keys[1], 1, -5) .. 'foreign:meta') end
    return { '', 'meta held a ' .. is }
  end
end
begin(keys)
local reply = { '' }
local function found(text) reply[#reply + 1] = text end
local function scan(command, key, each)
  local kind = sub(key, #K + 1, #K + 2)
  local few = (kind == 'j:' or kind == 'h:') and node(path).bulky -- their records come with each page
  local page = call(command, key, cursor ~= '' and cursor or '0', 'COUNT', few and 8 or 100)
  if page[1] ~= '0' then reply[1] = page[1] end
  local step = (command == 'SSCAN') and 1 or 2
  for i = 1, #page[2], step do each(page[2][i], page[2][i + 1]) end
end

local parts = {}

local function check_type(name, wanted)
  local is = call('TYPE', K .. name).ok
  if is == wanted or is == 'none' then return end
  found(name .. ' held a ' .. is .. ' instead of a ' .. wanted)
  if repair then call('RENAME', K .. name, K .. 'foreign:' .. name .. ':' .. now) end
end

local OWN_KEYS = { dead = 'hash', leases = 'hash', grace = 'hash',
  run = 'hash', due = 'zset', timers = 'zset', dl = 'zset', chores = 'zset', waiters = 'zset',
  watch = 'zset', hist = 'stream', sessions = 'set', parked = 'set', rules = 'hash', kc = 'hash', marks = 'hash',
  pr = 'hash', ['c:'] = 'set', ['i:'] = 'zset' }
local BY_LETTER = { z = 'zset', i = 'zset', n = 'hash', c = 'set', j = 'hash', t = 'hash', e = 'hash', h = 'hash',
  f = 'zset', g = 'zset', p = 'zset', w = 'zset' }

function parts.types()
  if #args < 5 then
    for name, wanted in pairs(OWN_KEYS) do check_type(name, wanted) end
  end
  for i = 5, #args do
    local wanted = sub(args[i], 2, 2) == ':' and BY_LETTER[sub(args[i], 1, 1)]
    if wanted then check_type(args[i], wanted) end
  end
end

--- Nodes that their parent does not know: nothing below them would ever be claimed.
function parts.known()
  for i = 5, #args do
    local parent, seg = parent_of(args[i])
    local there = call('EXISTS', K .. 'n:' .. args[i], K .. 'j:' .. args[i]) > 0  -- it may have gone since it was seen
    if there and call('SISMEMBER', K .. 'c:' .. parent, seg) == 0 then
      found(args[i] .. ' was unknown to its parent')
      if repair then
        call('HDEL', K .. 'n:' .. args[i], 'e')
        nodes = {}
        ensure(args[i])
        dirty[args[i]] = true
      end
    end
  end
end

--- The places that know a job, strongest first.
local function places_of(id, job)
  local key, at, list = path .. '/' .. id, path_of(path, job.lane), {}
  if call('HEXISTS', K .. 'run', key) == 1 then list[#list + 1] = 'running' end
  if call('ZSCORE', K .. 'f:' .. path, id) then list[#list + 1] = 'failed' end
  if call('ZSCORE', K .. 'due', key) then list[#list + 1] = 'scheduled' end
  if call('ZSCORE', K .. 'z:' .. at, id) then list[#list + 1] = 'ready' end
  if call('ZSCORE', K .. 'p:' .. parking(path, job), id) then list[#list + 1] = 'parked' end
  return list
end

--- The job of a record; nil when that, or its options, cannot be read.
local function readable(rec)
  local ok, job = pcall(function()
    local read = parse(rec)
    option(read, 'n')
    return read
  end)
  return ok and job or nil
end

local function leave(place, id, job)
  local key, at = path .. '/' .. id, path_of(path, job.lane)
  if place == 'failed' then call('ZREM', K .. 'f:' .. path, id); count(at, 'f', -1)
  elseif place == 'scheduled' then call('ZREM', K .. 'due', key); count(at, 'd', -1)
  elseif place == 'ready' then call('ZREM', K .. 'z:' .. at, id); count(at, 'r', -1); dirty[at] = true
  elseif place == 'parked' then call('ZREM', K .. 'p:' .. parking(path, job), id); count(at, 'p', -1) end
end

function parts.jobs()
  scan('HSCAN', K .. 'j:' .. path, function(id, rec)
    local job = readable(rec)
    if not job then
      found(path .. '/' .. id .. ' has a record that cannot be read')
      if repair then forget_job(path, id) end
      return
    end
    local places = places_of(id, job)
    local at = path_of(path, job.lane)
    if call('SISMEMBER', K .. 'c:' .. (parent_of(at)), (select(2, parent_of(at)))) == 0 then
      found(at .. ' was unknown to its parent')
      if repair then
        call('HDEL', K .. 'n:' .. at, 'e')
        nodes = {}
        ensure(at)
      end
    end
    if #places == 0 then
      found(path .. '/' .. id .. ' stood in no place')
      if repair then put_job(path, id, job, 0) end
    end
    for i = 2, #places do
      found(path .. '/' .. id .. ' was ' .. places[1] .. ' and ' .. places[i] .. ' at once')
      if repair then leave(places[i], id, job) end
    end
  end)
end

function parts.letters()
  scan('ZSCAN', K .. 'f:' .. path, function(id)
    if call('HEXISTS', K .. 'j:' .. path, id) == 1 then return end
    found(path .. '/' .. id .. ' was a dead letter without a record')
    if repair then call('ZREM', K .. 'f:' .. path, id) end
  end)
end

function parts.parked()
  for _, name in ipairs(call('SMEMBERS', K .. 'parked')) do
    local queue = split(name)
    for _, id in ipairs(call('ZRANGE', K .. 'p:' .. name, 0, 999)) do
      if call('HEXISTS', K .. 'j:' .. queue, id) == 0 then
        found(queue .. '/' .. id .. ' was parked without a record')
        if repair then call('ZREM', K .. 'p:' .. name, id) end
      end
    end
  end
end

--- The job of a held twin, or nil when it cannot be read.
local function twin_job(packed)
  local ok, twin = pcall(unpack_, packed)
  return ok and type(twin) == 'table' and twin.rec and readable(twin.rec) or nil
end

function parts.held()
  scan('HSCAN', K .. 'h:' .. path, function(id, packed)
    if not twin_job(packed) then
      found(path .. '/' .. id .. ' has a twin that cannot be read')
      if repair then call('HDEL', K .. 'h:' .. path, id) end
      return
    end
    if call('HEXISTS', K .. 'run', path .. '/' .. id) == 1 then return end
    found(path .. '/' .. id .. ' was held behind a run that is gone')
    if not repair then return end
    local rec = call('HGET', K .. 'j:' .. path, id)
    if not rec then return release_held(path, id) end
    local old, counts = parse(rec), counts_of(call('HGET', K .. 't:' .. path, id))
    take_waiting(path, id, old)
    take_failed(path, id, old)
    local new, at = absorb_held(path, id, old, counts, 0)
    keep_counts(path, id, counts)
    put_job(path, id, new, at)
  end)
end

function parts.lane()
  local queue = chain(path)[1]
  local from = tonumber(cursor ~= '' and cursor or 0)
  local ids = call('ZRANGE', K .. 'z:' .. path, from, from + 199)
  local recs, kept = hmget(K .. 'j:' .. queue, ids), 0
  for i = 1, #ids do
    local job = readable(recs[i] or '')
    if recs[i] and not job then kept = kept + 1  -- `jobs` has told about it, and mended it if it was to
    elseif recs[i] and path_of(queue, job.lane) == path then kept = kept + 1
    else
      found(path .. ' had an entry without a job: ' .. ids[i])
      if repair then
        call('ZREM', K .. 'z:' .. path, ids[i])
        count(path, 'r', -1)
        dirty[path], idle[path] = true, true
      else kept = kept + 1 end
    end
  end
  if #ids == 200 then reply[1] = string.format('%d', from + kept) end
end

function parts.children()
  if cursor == '' then
    local k = call('SCARD', K .. 'c:' .. path)
    if path ~= '' and node(path).k ~= k then
      found(path .. ' counted ' .. node(path).k .. ' children, there are ' .. k)
      if repair then
        call('HSET', K .. 'n:' .. path, 'k', k)
        nodes = {}
        if k == 0 then call('DEL', K .. 'i:' .. path) end
        dirty[path] = true
      end
    end
    for _, seg in ipairs(call('ZRANGE', K .. 'i:' .. path, 0, 999)) do
      if seg ~= '' and call('SISMEMBER', K .. 'c:' .. path, seg) == 0 then
        found((path == '' and 'the root' or path) .. ' had an entry of a lane that does not exist: ' .. seg)
        if repair then call('ZREM', K .. 'i:' .. path, seg) end
      end
    end
  end
  scan('SSCAN', K .. 'c:' .. path, function(seg)
    local n = node(path == '' and seg or path .. '/' .. seg)
    local stands = call('ZSCORE', K .. 'i:' .. path, seg)
    local fires = tonumber(call('ZSCORE', K .. 'timers', n.path) or math.huge)
    if (level_of(n) ~= nil) ~= (stands and true or false) and (stands or fires > now) then
      found(n.path .. (stands and ' stood in its index with nothing to start' or ' was missing in its index'))
      if repair then dirty[n.path] = true end
    end
  end)
end

function parts.runs()
  scan('HSCAN', K .. 'run', function(key, raw)
    local ok, e = pcall(function() return own(open_entry(raw)) end)
    if not (ok and find(key, '/', 1, true)) then
      found(key .. ' has a run that cannot be read')
      if repair then
        call('HDEL', K .. 'run', key)
        call('ZREM', K .. 'dl', key)
      end
      return
    end
    local queue, id = split(key)
    local c = e.c
    if call('HEXISTS', K .. 'j:' .. queue, id) == 0 then
      found(key .. ' was running without a record')
      if repair then end_runs({ { key = key, queue = queue, id = id, e = e } }) end
      return
    end
    local watched_by = (c[4] > 0 or c[1] == '') and key or c[1]
    local dying = watched_by == c[1] and call('HEXISTS', K .. 'dead', c[1]) == 1
    if not dying and not call('ZSCORE', K .. 'dl', watched_by) then
      found(key .. ' had no deadline')
      if repair then call('ZADD', K .. 'dl', now, watched_by) end
    end
  end)
end

function parts.clocks()
  scan('ZSCAN', K .. 'due', function(key)
    local queue, id = split(key)
    if call('HEXISTS', K .. 'j:' .. queue, id) == 1 then return end
    found(key .. ' was scheduled without a record')
    if repair then call('ZREM', K .. 'due', key) end
  end)
  if cursor ~= '' then return end
  for _, name in ipairs(call('ZRANGE', K .. 'dl', 0, 999)) do
    local is_job = find(name, '/', 1, true)
    local alive = is_job and call('HEXISTS', K .. 'run', name) or call('EXISTS', K .. 'ss:' .. name)
    if alive == 0 then
      found(name .. ' had a deadline and nothing to end')
      if repair then call('ZREM', K .. 'dl', name) end
    end
  end
end

--- How many members of a claim still run, so that each can be counted as its share of the claim's units.
local function members_of(raw) return tonumber(call('HGET', K .. 'kc', own(open_entry(raw)).claim) or 1) end

function parts.tally()
  local sums = {}
  local function add(at, place)
    for _, p in ipairs(chain(at)) do
      sums[p] = sums[p] or {}
      sums[p][place] = (sums[p][place] or 0) + 1
    end
  end
  local letter = { failed = 'f', scheduled = 'd', ready = 'r', parked = 'p', running = 'y' }
  local which = args[5] or 'j'
  if which == 'run' then
    scan('HSCAN', K .. 'run', function(key, raw)
      local ok, e = pcall(open_entry, raw)
      local c = ok and e.c
      if ok and chain(c[2])[1] == path then
        for _, p in ipairs(chain(c[2])) do
          sums[p] = sums[p] or {}
          local units = c[6] == 0 and 1 or c[7] / members_of(raw)
          sums[p].x = (sums[p].x or 0) + units
          sums[p].m = (sums[p].m or 0) + 1 - units
        end
      end
    end)
    reply[2] = pack(sums)
    return
  end
  scan('HSCAN', K .. which .. ':' .. path, function(id, rec)
    local job
    if which == 'h' then
      job = twin_job(rec)
      return job and add(path_of(path, job.lane), 'h')
    end
    job = readable(rec)
    if not job then return end
    local place, at = places_of(id, job)[1], path_of(path, job.lane)
    if place == 'ready' then
      local c = chain(at)
      sums[path] = sums[path] or {}
      sums[path].z = (sums[path].z or 0) + 1
      at = c[#c - 1]
    end
    if place and at then add(at, letter[place]) end
  end)
  reply[2] = pack(sums)
end

local function totals_of(at)
  local v = call('HMGET', K .. 'n:' .. at, 'r', 'd', 'h', 'f', 'p', 'x', 'm')
  local t = { records = call('HLEN', K .. 'j:' .. at), seq = seq }
  for i, field in ipairs({ 'r', 'd', 'h', 'f', 'p', 'x', 'm' }) do t[field] = tonumber(v[i] or 0) end
  return t
end

function parts.totals() reply[2] = pack(totals_of(path)) end

function parts.fix()
  local old, new, whole = unpack_(args[5]), unpack_(args[6]), totals_of(chain(path)[1])
  for field, value in pairs(unpack_(args[7])) do
    if whole[field] ~= value then return end  -- the queue has moved on since it was counted
  end
  for field, value in pairs(new) do
    if old[field] ~= value then
      found(path .. ' counted ' .. old[field] .. ' as ' .. field .. ', there are ' .. value)
      call('HSET', K .. 'n:' .. path, field, value)
    end
  end
  idle[path], dirty[path], nodes = true, true, {}
end

parts[part]()
flush()
return reply
