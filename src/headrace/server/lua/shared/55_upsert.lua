-- What happens when an id is enqueued that is already there (E18, E19).
--
-- A request to enqueue, decoded ('' asks for nothing special): { lane, prio, at, delay, opts, d, a, c, letters }
--   at ms or 0, delay ms or 0; opts a map of options; d update data (1/0); a update run_at (0 no, 1 yes,
--   2 if later, 3 if earlier); c reset counts (1/0); letters: options to take over ('p' priority, 'l' lane, ...)

local read_head, decode_head, hold, update_waiting, absorb_held

do -- a chunk of Lua has at most 200 locals: the others are of this file only

--- Heads recur from call to call, and decoding one costs as much as two commands: some are kept. Many more would be
-- in the way of the collection of garbage where each job has a head of its own.
local heads, heads_kept = {}, 0

function read_head(head)
  local h = heads[head]
  if h then return h end
  local v = head ~= '' and unpack_(head) or {}
  local opts = type(v[5]) == 'table' and next(v[5]) and pack(v[5]) or nil
  if opts and #opts > 4096 then refuse('OPTION', 'the options of a job have at most 4,096 bytes') end
  h = { lane = v[1] or '', prio = v[2] or 50, at = v[3] or 0, delay = v[4] or 0, opts = opts, d = v[6] or 1,
    a = v[7] or 1, c = v[8] or v[6] or 1, letters = v[9] or '', path = '' }
  if heads_kept == 64 then heads, heads_kept = {}, 0 end
  heads[head], heads_kept = h, heads_kept + 1
  return h
end

--- A head as one call for this queue asks for it: a delay counts from now.
function decode_head(head, queue)
  local h = read_head(head)
  if h.delay > 0 then
    h = { lane = h.lane, prio = h.prio, at = now + h.delay, opts = h.opts, d = h.d, a = h.a, c = h.c,
      letters = h.letters, path = '' }
  end
  h.path = path_of(queue, h.lane)
  return h
end

local function merged_time(old, new, how)
  if how == 0 then return old end
  if how == 1 or (how == 2 and new > old) or (how == 3 and new < old) then return new end
  return old
end

--- Options of `old`, with those named by `letters` taken from `new`; packed, or nil when all are defaults.
local function merged_options(old, new, letters)
  local o, n = old.o and unpack_(old.o) or {}, new.o and unpack_(new.o) or {}
  for i = 1, #letters do
    local name = sub(letters, i, i)
    if name ~= 'p' and name ~= 'l' then o[name] = n[name] end
  end
  return next(o) and pack(o) or nil
end

--- The record that results when `new` (parsed) is laid over `old` (parsed) by the flags of `how`.
local function merged_record(old, new, how)
  local function takes(name) return find(how.letters, name, 1, true) end
  local data = how.d == 1 and new or old
  return record_of(takes('p') and new.prio or old.prio, old.queued, old.gen, takes('l') and new.lane or old.lane,
    merged_options(old, new, how.letters), payload_of(data))
end

--- Two sets of flags of the same twin as one: what either of them asked for.
local function merged_flags(old, new)
  local letters = old.letters
  for i = 1, #new.letters do
    local name = sub(new.letters, i, i)
    if not find(letters, name, 1, true) then letters = letters .. name end
  end
  local a = (old.a == 1 or new.a == 1) and 1 or (new.a ~= 0 and new.a or old.a)
  return { d = max(old.d, new.d), a = a, c = max(old.c, new.c), letters = letters }
end

--- The id is running: keep the new one as its held twin, or merge it into the twin that is held already.
function hold(queue, id, rec, ask)
  local h = call('HGET', K .. 'h:' .. queue, id)
  mark_bulky(queue, rec)
  if not h then
    local twin = { rec = rec, at = ask.at, d = ask.d, a = ask.a, c = ask.c, letters = ask.letters }
    call('HSET', K .. 'h:' .. queue, id, pack(twin))
    ensure(path_of(queue, ask.lane))
    count(path_of(queue, ask.lane), 'h', 1)
    return parse(rec).gen
  end
  local twin = unpack_(h)
  local old, new, flags = parse(twin.rec), parse(rec), merged_flags(twin, ask)
  flags.rec = merged_record(old, new, ask)
  flags.at = merged_time(twin.at, ask.at, ask.a)
  call('HSET', K .. 'h:' .. queue, id, pack(flags))
  local lane = parse(flags.rec).lane
  if lane ~= old.lane then
    ensure(path_of(queue, lane))
    count(path_of(queue, old.lane), 'h', -1)
    idle[path_of(queue, old.lane)] = true
    count(path_of(queue, lane), 'h', 1)
  end
  return old.gen
end

--- The id waits (ready, scheduled or parked): change it by the flags. It keeps its place in line when it can.
function update_waiting(queue, id, old, rec, ask)
  local path = path_of(queue, old.lane)
  local was_at = tonumber(call('ZSCORE', K .. 'due', queue .. '/' .. id) or 0)
  local score = call('ZSCORE', K .. 'z:' .. path, id)
  local new = parse(merged_record(old, parse(rec), ask))
  local at = merged_time(was_at, ask.at, ask.a)
  mark_bulky(queue, new.rec)
  call('HSET', K .. 'j:' .. queue, id, new.rec)
  if ask.c == 1 then
    call('HDEL', K .. 't:' .. queue, id)
    call('HDEL', K .. 'e:' .. queue, id)
  end
  local stays = new.lane == old.lane and new.prio == old.prio
  if score and stays and at <= now then return old.gen end
  if not score and stays and at <= now and call('ZSCORE', K .. 'p:' .. parking(queue, new), id) then
    return old.gen
  end
  take_waiting(queue, id, old)
  put_job(queue, id, new, at, stays and tonumber(score) or nil)
  return old.gen
end

--- A run of the id ended without ending the job: lay the held twin over it. Answers the job and its time.
function absorb_held(queue, id, job, counts, at)
  local h = call('HGET', K .. 'h:' .. queue, id)
  if not h then return job, at end
  call('HDEL', K .. 'h:' .. queue, id)
  local twin = unpack_(h)
  local new = parse(twin.rec)
  count(path_of(queue, new.lane), 'h', -1)
  idle[path_of(queue, new.lane)] = true
  local rec = merged_record(job, new, twin)
  if twin.d == 1 then
    rec = sub(rec, 1, 8) .. sub(twin.rec, 9, 14) .. sub(rec, 15)
    merge_outcome(queue .. '/' .. id, job.gen, new.gen)
  else
    merge_outcome(queue .. '/' .. id, new.gen, job.gen)
  end
  if twin.c == 1 then
    counts.f, counts.s, counts.o = 0, 0, 0
    call('HDEL', K .. 'e:' .. queue, id)
  end
  call('HSET', K .. 'j:' .. queue, id, rec)
  return parse(rec), merged_time(at, twin.at, twin.a)
end

end
