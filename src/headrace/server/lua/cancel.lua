-- Cancel jobs of one queue: waiting and held ones end now, running ones are marked when asked for.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: channel, number, queue, running (1 | 0), by whom and why, id, ...
-- Replies: a letter a job: w ended (it waited), h its held twin ended, m marked (running), b both, - nothing; fewer
--   letters than jobs when there was too much to read: ask again for the rest
-- Events: cancelled
local queue, running_too, by = args[3], args[4] == '1', args[5]
local answer = begin(keys, args[1], args[2])
if answer then return answer end
local letters = {}
for i = 6, #args do
  if i > 6 and spent() then break end
  local id = args[i]
  local key = queue .. '/' .. id
  local e = run_of(key)
  local held = call('HGET', K .. 'h:' .. queue, id)
  local rec = read_record(queue, id)
  local letter = '-'
  if held then
    local job = parse(unpack_(held).rec)
    call('HDEL', K .. 'h:' .. queue, id)
    local path = path_of(queue, job.lane)
    count(path, 'h', -1)
    idle[path] = true
    store_outcome(queue, id, job, 'c', by)
    event_waiting('c', queue, id, job, by)
    letter = 'h'
  end
  if e and running_too then
    local counts = counts_of(call('HGET', K .. 't:' .. queue, id))
    counts.a = max(counts.a, e.attempt - 1)
    counts.c = by ~= '' and by or 'no reason was given'  -- an empty mark would look like none
    call('HSET', K .. 't:' .. queue, id, pack(counts))
    if e.c[1] ~= '' then call('HSET', K .. 'marks', key, e.c[1]) end
    letter = letter == 'h' and 'b' or 'm'
  elseif rec and not e then
    local job = parse(rec)
    if take_waiting(queue, id, job) then
      store_outcome(queue, id, job, 'c', by)
      event_waiting('c', queue, id, job, by)
      forget_job(queue, id)
      letter = 'w'
    end
  end
  letters[#letters + 1] = letter
end
return flush(concat(letters))
