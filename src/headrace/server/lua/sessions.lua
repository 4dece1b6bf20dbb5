-- The live sessions of the shard, a page at a time.
-- Flags: no-writes
-- Keys: {tag}meta
-- Arguments: cursor ('' to begin), how many
-- Replies: {cursor or '' at the end, then session, since ms, deadline ms, lease ms, what it serves, info a session}
-- Events: none
begin(keys)
local page = call('SSCAN', K .. 'sessions', args[1] ~= '' and args[1] or '0', 'COUNT', args[2])
local reply = { page[1] ~= '0' and page[1] or '' }
for i = 1, #page[2] do
  local id = page[2][i]
  local v = call('HMGET', K .. 'ss:' .. id, 'since', 'lease', 'serves', 'info', 'dead')
  if v[1] and not v[5] then
    local at = #reply
    reply[at + 1], reply[at + 2], reply[at + 3] = id, v[1], call('ZSCORE', K .. 'dl', id) or '0'
    reply[at + 4], reply[at + 5], reply[at + 6] = v[2], v[3], v[4]
  end
end
return reply
