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
local first = waited == 0 and front_queue(queues[1] == '*' and '*' or queues)
if first then wake(first.seg, 1) end
return waited
