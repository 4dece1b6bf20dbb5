-- Finishing: many claims at once, each by its own operation; a claim that is not current changes nothing.
--
-- item: key, claim, op, body
--   c complete (body: the result's payload, '' none)      r retry, t timeout, f fail: '<at> <delay> ' + the error
--   l release  (body: '<at> <delay> ')                    p park    a abandon
-- answer, one letter an item: C done, R back in line, F failed, X cancelled, L released, P parked, - claim lost

local finish_items

do -- a chunk of Lua has at most 200 locals: the others are of this file only

local function time_and_error(body)
  local at, delay, rest = string.match(body, '^(-?%d+) (-?%d+) (.*)$')
  at, delay = tonumber(at), tonumber(delay)
  if delay >= 0 then return now + delay, rest end
  if at >= 0 then return at, rest end
  return nil, rest
end

--- Read every key that an end may write, so that one of a foreign type refuses the call before its first write
-- (E24). Answers by queue how many jobs have deviated, erred, and hold a twin.
local function look_before(done, others)
  local sizes, back_to = {}, {}
  local function look(queue)
    if sizes[queue] then return end
    call('ZCARD', K .. 'i:' .. queue)
    sizes[queue] = { t = call('HLEN', K .. 't:' .. queue), e = call('HLEN', K .. 'e:' .. queue),
      h = call('HLEN', K .. 'h:' .. queue) }
  end
  for queue in pairs(done) do look(queue) end
  for i = 1, #others do
    local queue = others[i].queue
    look(queue)
    if not back_to[queue] then
      back_to[queue] = true
      call('ZCARD', K .. 'f:' .. queue)
      call('ZCARD', K .. 'due')
      call('SCARD', K .. 'parked')
    end
  end
  call('ZCARD', K .. 'dl')
  call('ZCARD', K .. 'i:')
  call('ZCARD', K .. 'chores')
  if meta.hist ~= 0 then call('XLEN', K .. 'hist') end
  watched()
  return sizes
end

--- Completed jobs of one queue: everything about them goes but the outcome.
local function complete_all(queue, runs, sizes)
  local ids, keeps = {}, {}
  for i = 1, #runs do
    local run = runs[i]
    ids[i] = run.id
    event('d', run, nil, #run.body)
    local opts = options_of(run.e)
    local keep = keeps[opts or '']
    if keep == nil then
      keep = option({ o = opts }, 'k') ~= 0 or option({ o = opts }, 'u') ~= 0 or watched()
      keeps[opts or ''] = keep
    end
    if keep then store_outcome(queue, run.id, { gen = own(run.e).gen, o = opts }, 'd', run.body) end
  end
  many('HDEL', K .. 'j:' .. queue, ids)
  if sizes.t > 0 then many('HDEL', K .. 't:' .. queue, ids) end
  if sizes.e > 0 then many('HDEL', K .. 'e:' .. queue, ids) end
  if sizes.h > 0 then
    for i = 1, #ids do release_held(queue, ids[i]) end
  end
end

--- The type of an error, for the history: read from its payload where that can be read here.
local function error_type(payload)
  local ok, error = pcall(unpack_, sub(payload, 2))
  return ok and type(error) == 'table' and error.type or ''
end

local function end_one(run)
  local queue, id, op = run.queue, run.id, run.op
  local rec = call('HGET', K .. 'j:' .. queue, id)
  if not rec then return '-' end
  own(run.e)
  local job, counts = parse(rec), counts_of(call('HGET', K .. 't:' .. queue, id))
  if op == 'p' then return end_parked(run, job, counts) end
  if op == 'a' then
    local error = '\2' .. pack({ type = 'StallError', message = 'the worker abandoned its claim', session = run.e.c[1],
      attempt = run.e.attempt })
    return end_badly(run, job, counts, STALL, error, nil, false, 'StallError')
  end
  local at, error = time_and_error(run.body)
  if op == 'l' then return end_released(run, job, counts, at) end
  return end_badly(run, job, counts, op == 't' and TIMEOUT or 'f', error, at, op == 'f', error_type(error))
end

--- Finish the items in args[first..], four values each; answers the letters.
function finish_items(args, first, n)
  local keys, letters, current, done, others, seen, m = {}, {}, {}, {}, {}, {}, 0
  for i = 1, n do keys[i] = args[first + 4 * (i - 1)] end
  local entries = hmget(K .. 'run', keys)
  for i = 1, n do
    local at, key, raw = first + 4 * (i - 1), keys[i], entries[i]
    local common, own_at
    if raw and sub(raw, 1, CLAIM) == args[at + 1] and not seen[key] then common, own_at = common_in(raw) end
    if common and not orphaned(common) then
      seen[key] = true
      local queue = chain(common[2])[1]
      -- All fields at once: a table that grows is made anew each time it does.
      local run = { key = key, queue = queue, id = sub(key, #queue + 2), raw = raw, c = common, at = own_at,
        body = args[at + 3], e = false }
      run.e = run
      m = m + 1
      current[m] = run
      if args[at + 2] == 'c' then
        local d = done[queue]
        if not d then d = {}; done[queue] = d end
        d[#d + 1] = run
        letters[i] = 'C'
      else
        run.i, run.op = i, args[at + 2]
        others[#others + 1] = run
      end
    else
      letters[i] = '-'
    end
  end
  if m == 0 then return concat(letters) end
  local sizes = look_before(done, others)
  end_runs(current)
  for queue, runs in pairs(done) do complete_all(queue, runs, sizes[queue]) end
  for j = 1, #others do letters[others[j].i] = end_one(others[j]) end
  return concat(letters)
end

end
