-- A waiter that waited on several shards was served on another, or gives up: what woke it here wakes somebody else.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: waiter, queue or "*", ... more queues
-- Replies: 1 when it was still waiting here, else 0
-- Events: none
begin(keys)
local waiter, queues = args[1], {}
local waited = call('ZREM', K .. 'waiters', waiter)
call('DEL', K .. 'wl:' .. waiter)
for i = 2, #args do
  queues[i - 1] = args[i]
  call('ZREM', K .. 'w:' .. args[i], waiter)
end
if waited == 0 then pass_on(queues[1] == '*' and '*' or queues) end
if anybody_waits() then alarm(next_due()) end
return waited
