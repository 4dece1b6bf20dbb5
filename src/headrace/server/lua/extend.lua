-- Give a claim another deadline, counted from now; the job's timeout stays in force.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: "queue/id", claim, lease ms
-- Replies: {1, cancelled by or ''}, or {0} when the claim is not current
-- Events: none
begin(keys)
local e = run_of(args[1])
if not e or e.claim ~= args[2] or orphaned(e.c) then return { 0 } end
local c, ends, kind = e.c, now + tonumber(args[3]), 'l'
local timeout = option({ o = e.opts }, 't')
if timeout ~= -1 and c[3] + timeout + GRACE < ends then ends, kind = c[3] + timeout + GRACE, 't' end
local common = common_of(c[1], c[2], c[3], ends, kind, c[6], c[7], c[8])
call('HSET', K .. 'run', args[1], entry_of(e.claim, common, e.score, e.attempt, entry_born(e), e.size, e.opts))
call('ZADD', K .. 'dl', ends, args[1])
if anybody_waits() then alarm(ends) end
local queue, id = split(args[1])
return { 1, counts_of(call('HGET', K .. 't:' .. queue, id)).c or '' }
