-- Claim jobs: take up to n from the lanes whose turn it is, record the runs, and say what comes next.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: channel (the session), number, n, ahead, lease ms by hand (0: the session's), wait ms (0: no
--   waiting), waiter, nonce, members, units, queue or "*", ... more queues
-- Replies: {ms until something is due or -1, level waiting or -1, then "queue/id", claim, counts, record a job}
-- Events: stalled, timeout (of runs that housekeeping found dead)
local answer = begin(keys, args[1], args[2])
if answer then return replay_claims(answer[1], answer[2], { -1, -1 }, 1) end
local spec = spec_of(args, 1, args[1])
prepare(spec)
local reply, list = claim_jobs(spec)
if spec.serves and meta.died[spec.session] then
  meta.channel = nil -- an answer that is not kept: asked again, it is the same refusal
  flush(nil, true)
  pass_on(spec.queues)
  refuse_dead(spec.session)
end
flush({ spec.nonce, list }, true)
reply[2] = level_waiting(spec.queues, list[1])
return reply
