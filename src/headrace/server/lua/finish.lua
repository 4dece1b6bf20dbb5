-- Finish claims, many at once, and claim the next jobs in the same call.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: channel (the session), number, items, then key, claim, op, body an item (see finishing);
--   then nothing, or what `claim` takes from n on
-- Replies: {letters, then what claim replies}
-- Events: done, failed, timeout, stalled, released, cancelled
local answer = begin(keys, args[1], args[2])
if answer then return answer[2] and replay_claims(answer[2], answer[3], { answer[1], -1, -1 }, 2) or answer end
local n = tonumber(args[3])
local spec = #args >= 4 + 4 * n and spec_of(args, 2 + 4 * n, args[1])
call('EXISTS', K .. 'watch')
local letters = finish_items(args, 4, n)
local reply, list = {}
if spec then
  prepare(spec)
  reply, list = claim_jobs(spec)
end
flush(spec and { letters, spec.nonce, list } or { letters }, true)
if spec then reply[2] = level_waiting(spec.queues, list[1]) end
table.insert(reply, 1, letters)
return reply
