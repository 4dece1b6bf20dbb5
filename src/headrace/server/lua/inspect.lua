-- Page through the jobs of a queue, group or lane by status, or through its children.
-- Flags: no-writes
-- Keys: {tag}meta
-- Arguments: path, status (ready, scheduled, held, running, failed, "lanes"), cursor ('' to begin), how many
-- Replies: {cursor or '' at the end, then id, time, "attempts failures stalls timeouts", record without payload a job}
--   "lanes": {cursor, then the children's names}; pages by record may be short, go on until the cursor is ''
-- Events: none
begin(keys)
local path, status, cursor, n = args[1], args[2], args[3], tonumber(args[4])
local queue = chain(path)[1]
local reply = { '' }

local function inside(job)
  local at = path_of(queue, job.lane)
  return path == queue or at == path or sub(at, 1, #path + 1) == path .. '/'
end

local function add(id, at, rec)
  local c = counts_of(call('HGET', K .. 't:' .. queue, id))
  local i = #reply
  reply[i + 1], reply[i + 2], reply[i + 3], reply[i + 4] = id, at, concat({ c.a, c.f, c.s, c.o }, ' '),
    sub(rec, 1, parse(rec).at - 1)
end

--- Jobs of a sorted set, by rank: lines of ready jobs and dead letters.
local function by_rank(set, command)
  local from = tonumber(cursor ~= '' and cursor or 0)
  local list = call(command, set, from, from + n - 1, 'WITHSCORES')
  local seen = 0
  for i = 1, #list, 2 do
    if spent() then break end
    local rec = read_record(queue, list[i])
    seen = seen + 1
    if rec and inside(parse(rec)) then
      add(list[i], status == 'failed' and tonumber(list[i + 1]) or parse(rec).queued, rec)
    end
  end
  if #list == 2 * n or 2 * seen < #list then reply[1] = string.format('%d', from + seen) end
end

local function by_scan(hash, read)
  local few = hash ~= K .. 'run' and node(queue).bulky -- the records come with the page
  local page = call('HSCAN', hash, cursor ~= '' and cursor or '0', 'COUNT', few and min(n, 8) or n)
  for i = 1, #page[2], 2 do read(page[2][i], page[2][i + 1]) end
  if page[1] ~= '0' then reply[1] = page[1] end
end

if status == 'lanes' then
  local page = call('SSCAN', K .. 'c:' .. path, cursor ~= '' and cursor or '0', 'COUNT', n)
  for i = 1, #page[2] do reply[#reply + 1] = page[2][i] end
  if page[1] ~= '0' then reply[1] = page[1] end
elseif status == 'failed' then
  by_rank(K .. 'f:' .. queue, 'ZREVRANGE')
elseif status == 'ready' and node(path).k == 0 and call('SCARD', K .. 'parked') == 0 then
  by_rank(K .. 'z:' .. path, 'ZRANGE')
elseif status == 'running' then
  by_scan(K .. 'run', function(key, packed)
    local q, id = split(key)
    if q ~= queue then return end
    local e = own(open_entry(packed)) -- it says all that a record's header does
    local lane, prio = sub(e.c[2], #queue + 2), job_prio(node(queue), e.score)
    if inside({ lane = lane }) then add(id, e.c[3], record_of(prio, e.queued, e.gen, lane, e.opts, '')) end
  end)
elseif status == 'held' then
  by_scan(K .. 'h:' .. queue, function(id, packed)
    local twin = unpack_(packed)
    if inside(parse(twin.rec)) then add(id, twin.at, twin.rec) end
  end)
else
  by_scan(K .. 'j:' .. queue, function(id, rec)
    local job = parse(rec)
    if inside(job) then
      local is, at = place_of(queue, id, job)
      if is == status then add(id, at, rec) end
    end
  end)
end
return reply
