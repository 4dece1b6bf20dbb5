-- Wait for the end of a job: what `look` answers when it has ended, else its end will be published.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: queue, id, generation (0: the latest), ms to watch for
-- Replies: what `look` replies, or nothing while the job goes on; published on {tag}done:<queue>/<id> then
-- Events: none
begin(keys)
local seen = look_at(args[1], args[2], tonumber(args[3]))
if seen[1] == '' or seen[1] == 'done' or seen[1] == 'failed' or seen[1] == 'cancelled' then return seen end
call('ZREMRANGEBYSCORE', K .. 'watch', '-inf', now)
call('ZADD', K .. 'watch', 'GT', now + tonumber(args[4]), args[1] .. '/' .. args[2])
return false
