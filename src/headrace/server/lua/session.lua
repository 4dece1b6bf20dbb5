-- Open a session (a worker process as the shard knows it), or close it and hand its jobs back.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: channel (the session), number, "open" | "close", lease ms, msgpack {queues, tasks}, info for people
-- Replies: {jobs handed back, 1 when there are more: close again}
-- Events: released
local session = args[1]
local answer = begin(keys, session, args[2])
if answer then return answer end
local moved = { 0, 0 }
if args[3] == 'open' then
  if #session > 255 then refuse('BAD', 'the id of a session has at most 255 bytes, not ' .. #session) end
  if call('HEXISTS', K .. 'ss:' .. session, 'dead') == 1 then refuse_dead(session) end
  local lease = tonumber(args[4])
  if call('SISMEMBER', K .. 'sessions', session) == 1 then
    count_lease(call('HGET', K .. 'ss:' .. session, 'lease'), -1)
  end
  count_lease(lease, 1)
  call('HSET', K .. 'ss:' .. session, 'lease', lease, 'serves', args[5], 'info', args[6], 'since', now)
  call('ZADD', K .. 'dl', now + lease, session)
  call('SADD', K .. 'sessions', session)
  call('HDEL', K .. 'ss:' .. session, 'graces')
  meta.alarm = now + lease
  unpark(unpack_(args[5]), 100)
else
  local list, all, cursor = runs_of_session(session, 100)
  end_runs(list)
  for i = 1, #list do
    local run = list[i]
    local rec = call('HGET', K .. 'j:' .. run.queue, run.id)
    if rec then end_released(run, parse(rec), counts_of(call('HGET', K .. 't:' .. run.queue, run.id)), 0) end
  end
  local v = call('HMGET', K .. 'ss:' .. session, 'lease', 'dead')
  if v[1] and not v[2] then count_lease(v[1], -1) end
  moved = { #list, all and 0 or 1 }
  if all then
    bury_session(session)
    call('DEL', K .. 'ss:' .. session)
  else
    call('HSET', K .. 'ss:' .. session, 'cursor', cursor, 'dead', now) -- who leaves takes nothing more
  end
end
return flush(moved, true)
