-- Open a session (a worker process as the shard knows it), or close it and hand its jobs back.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: channel (the session), number, "open" | "close", lease ms, msgpack {queues, tasks}, info for people
-- Replies: the number of jobs handed back (close), 0 (open)
-- Events: released
local session = args[1]
local answer = begin(keys, session, args[2])
if answer then return answer end
local moved = 0
if args[3] == 'open' then
  local lease = tonumber(args[4])
  call('HSET', K .. 'ss:' .. session, 'lease', lease, 'serves', args[5], 'info', args[6], 'since', now)
  call('ZADD', K .. 'dl', now + lease, session)
  call('SADD', K .. 'sessions', session)
  if lease > meta.lease then call('HSET', K .. 'meta', 'lease', lease) end
  unpark(unpack_(args[5]).tasks or {}, 100)
else
  local keys_ = call('SRANDMEMBER', K .. 'sj:' .. session, 100)
  local list = {}
  for i = 1, #keys_ do
    local e = run_of(keys_[i])
    if e and e.c[1] == session then
      local queue, id = split(keys_[i])
      list[#list + 1] = { key = keys_[i], queue = queue, id = id, e = e }
    end
  end
  end_runs(list)
  many('SREM', K .. 'sj:' .. session, keys_)
  for i = 1, #list do
    local run = list[i]
    local rec = call('HGET', K .. 'j:' .. run.queue, run.id)
    if rec then end_released(run, parse(rec), counts_of(call('HGET', K .. 't:' .. run.queue, run.id)), 0) end
  end
  moved = #keys_
  if call('EXISTS', K .. 'sj:' .. session) == 0 then
    call('ZREM', K .. 'dl', session)
    call('SREM', K .. 'sessions', session)
    call('DEL', K .. 'ss:' .. session, K .. 'sc:' .. session)
  end
end
return flush(moved, true)
