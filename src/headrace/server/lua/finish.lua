-- Finish claims, many at once, and claim the next jobs in the same call.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: channel (the session), number, items, then key, claim, op, body an item (see finishing);
--   then nothing, or what `claim` takes from n on
-- Replies: {letters, then what claim replies}
-- Events: done, failed, timeout, stalled, released, cancelled
begin(keys)
local answer = recall(args[1], args[2])
if answer then return replay_claims(answer[2], { answer[1], -1, -1 }) end
local n = tonumber(args[3])
call('EXISTS', K .. 'watch')
local letters = finish_items(args, 4, n)
local reply, list, spec = {}, {}
if #args >= 4 + 4 * n then
  spec = spec_of(args, 2 + 4 * n, args[1])
  housekeep(spec.n)
  settle_dirty()
  reply, list = claim_jobs(spec)
end
flush(true)
if spec then reply[2] = level_waiting(spec.queues) end
remember(args[1], args[2], { letters, list })
table.insert(reply, 1, letters)
return reply
