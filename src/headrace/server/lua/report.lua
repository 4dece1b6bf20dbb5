-- Say how far a running job is: kept while it runs.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: "queue/id", claim, progress (opaque)
-- Replies: {1, cancelled by or ''}, or {0} when the claim is not current
-- Events: none
begin(keys)
local e = run_of(args[1])
if not e or e.claim ~= args[2] or orphaned(e.c) then return { 0 } end
local queue, id = split(args[1])
call('HSET', K .. 'pr', args[1], args[3])
return { 1, counts_of(call('HGET', K .. 't:' .. queue, id)).c or '' }
