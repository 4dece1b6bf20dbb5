-- Read the history, oldest first.
-- Flags: no-writes
-- Keys: {tag}meta
-- Arguments: the id of the last entry that was read ('' from the start), most entries
-- Replies: id, packed events, ... (see 45_history.lua for the fields of an event)
-- Events: none
begin(keys)
local reply = {}
local from = args[1] == '' and '-' or '(' .. args[1]
for _, entry in ipairs(call('XRANGE', K .. 'hist', from, '+', 'COUNT', args[2])) do
  reply[#reply + 1] = entry[1]
  reply[#reply + 1] = entry[2][6]
end
return reply
