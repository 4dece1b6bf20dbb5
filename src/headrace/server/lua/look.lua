-- Everything about one job.
-- Flags: no-writes
-- Keys: {tag}meta
-- Arguments: queue, id, generation (0: the latest)
-- Replies: {status or '' when unknown, generation, record, "attempts failures stalls timeouts", time (run_at,
--   started, ended or queued), error or result, progress, 1 when a twin is held, cancelled by, session or task,
--   1 when it is parked}
-- Events: none
begin(keys)
return look_at(args[1], args[2], tonumber(args[3]))
