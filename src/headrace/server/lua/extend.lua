-- Give a claim another deadline, counted from now.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: "queue/id", claim, lease ms
-- Replies: {1, cancelled by or ''}, or {0} when the claim is not current
-- Events: none
begin(keys)
local e = run_of(args[1])
if not e or e[1] ~= args[2] then return { 0 } end
e[10], e[11] = now + tonumber(args[3]), 'l'
call('HSET', K .. 'run', args[1], pack(e))
call('ZADD', K .. 'dl', e[10], args[1])
local queue, id = split(args[1])
return { 1, counts_of(call('HGET', K .. 't:' .. queue, id)).c or '' }
