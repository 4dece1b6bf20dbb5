-- Counts by status of queues, groups or lanes.
-- Flags: no-writes
-- Keys: {tag}meta
-- Arguments: path, ...
-- Replies: six numbers a path: scheduled, ready, held, running, failed, parked (parked are ready too)
-- Events: none
begin(keys)
local reply = {}
for i = 1, #args do
  local v = call('HMGET', K .. 'n:' .. args[i], 'd', 'r', 'h', 'f', 'p', 'x', 'm')
  local p = tonumber(v[5] or 0)
  local ready = tonumber(v[2] or 0) + call('ZCARD', K .. 'z:' .. args[i]) + p
  local at = #reply
  reply[at + 1], reply[at + 2], reply[at + 3] = tonumber(v[1] or 0), ready, tonumber(v[3] or 0)
  reply[at + 4], reply[at + 5], reply[at + 6] = tonumber(v[6] or 0) + tonumber(v[7] or 0), tonumber(v[4] or 0), p
end
return reply
