-- Finishing: many claims at once, each by its own operation; a claim that is not current changes nothing.
--
-- item: key, claim, op, body
--   c complete (body: the result's payload, '' none)      r retry, f fail: '<at> <delay> ' + the error's payload
--   l release  (body: '<at> <delay> ')                    p park    a abandon
-- answer, one letter an item: C done, R back in line, F failed, X cancelled, L released, P parked, - claim lost

local function time_and_error(body)
  local at, delay, rest = string.match(body, '^(-?%d+) (-?%d+) (.*)$')
  at, delay = tonumber(at), tonumber(delay)
  if delay >= 0 then return now + delay, rest end
  if at >= 0 then return at, rest end
  return nil, rest
end

--- Completed jobs of one queue: everything about them goes but the outcome.
local function complete_all(queue, items)
  local ids = {}
  local has_held = call('EXISTS', K .. 'h:' .. queue) == 1
  for i = 1, #items do
    local it = items[i]
    local e = it.entry
    ids[i] = it.id
    attempt_event('done', queue, it.id, e, nil, #it.body)
    store_outcome(queue, it.id, { gen = e[8], o = e[14] ~= '' and e[14] or nil }, 'd', it.body)
  end
  many('HDEL', K .. 'j:' .. queue, ids)
  if call('EXISTS', K .. 't:' .. queue) == 1 then many('HDEL', K .. 't:' .. queue, ids) end
  if call('EXISTS', K .. 'e:' .. queue) == 1 then many('HDEL', K .. 'e:' .. queue, ids) end
  if has_held then
    for i = 1, #ids do release_held(queue, ids[i]) end
  end
end

--- The type of an error, for the history: read from its payload where that can be read here.
local function error_type(payload)
  local ok, error = pcall(unpack_, sub(payload, 2))
  return ok and type(error) == 'table' and error.type or ''
end

local function end_one(it)
  local e, queue, id = it.entry, it.queue, it.id
  local rec = call('HGET', K .. 'j:' .. queue, id)
  if not rec then return '-' end
  local job, counts = parse(rec), counts_of(call('HGET', K .. 't:' .. queue, id))
  if it.op == 'p' then return end_parked(queue, id, e, job, counts) end
  if it.op == 'a' then
    local error = '\2' .. pack({ type = 'StallError', message = 'the worker abandoned its claim', session = e[2], attempt = e[6] })
    return end_badly(queue, id, e, job, counts, STALL, error, nil, false, 'StallError')
  end
  local at, error = time_and_error(it.body)
  if it.op == 'l' then return end_released(queue, id, e, job, counts, at) end
  return end_badly(queue, id, e, job, counts, it.op == 't' and TIMEOUT or 'f', error, at, it.op == 'f', error_type(error))
end

--- Finish the items in args[first..], four values each; answers the letters.
local function finish_items(args, first, n)
  local keys, letters, current, seen = {}, {}, {}, {}
  for i = 1, n do keys[i] = args[first + 4 * (i - 1)] end
  local entries = hmget(K .. 'run', keys)
  for i = 1, n do
    local at = first + 4 * (i - 1)
    local e = entries[i] and unpack_(entries[i])
    if e and e[1] == args[at + 1] and not seen[keys[i]] then
      seen[keys[i]] = true
      local queue, id = split(keys[i])
      current[#current + 1] = { i = i, key = keys[i], entry = e, queue = queue, id = id, op = args[at + 2], body = args[at + 3] }
    else
      letters[i] = '-'
    end
  end
  local runs, done = {}, {}
  for j = 1, #current do runs[j] = { current[j].key, current[j].entry } end
  end_runs(runs)
  for j = 1, #current do
    local it = current[j]
    if it.op == 'c' then
      local d = done[it.queue]
      if not d then d = {}; done[it.queue] = d end
      d[#d + 1] = it
      letters[it.i] = 'C'
    end
  end
  for queue, items in pairs(done) do complete_all(queue, items) end
  for j = 1, #current do
    if current[j].op ~= 'c' then letters[current[j].i] = end_one(current[j]) end
  end
  return concat(letters)
end
