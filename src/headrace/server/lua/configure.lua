-- Switch the history, and bound it.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: level (0 off, 1 an event an attempt), most events kept (0: as it is)
-- Replies: 1
-- Events: none
begin(keys)
call('HSET', K .. 'meta', 'hist', args[1])
if tonumber(args[2]) > 0 then call('HSET', K .. 'meta', 'hmax', args[2]) end
return 1
