-- Keep a session alive for another lease; hear which of its jobs are to be cancelled.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: session
-- Replies: {1, "queue/id" of each job marked as cancelled ...}, or {0} when the session is dead or unknown
-- Events: stalled, timeout (of runs that housekeeping found dead)
begin(keys)
local session = args[1]
local v = call('HMGET', K .. 'ss:' .. session, 'lease', 'dead', 'serves')
if not v[1] or v[2] then return { 0 } end
local deadline, lease = tonumber(call('ZSCORE', K .. 'dl', session) or 0), tonumber(v[1])
forgive()
if deadline <= now and not forgiven(v[1]) and now - meta.seen <= lease / 2 then
  housekeep(1)
  flush(nil, true)
  return { 0 }
end
call('ZADD', K .. 'dl', now + lease, session)
call('HDEL', K .. 'ss:' .. session, 'graces')
housekeep(1)
if call('SCARD', K .. 'parked') > 0 then unpark(unpack_(v[3]), 100) end
flush(nil, true)
local reply = { 1 }
local marks = call('EXISTS', K .. 'marks') == 1 and call('HGETALL', K .. 'marks') or {}
for i = 1, #marks, 2 do
  if marks[i + 1] == session then reply[#reply + 1] = marks[i] end
end
return reply
