-- Enqueue jobs into one queue; an id that is there already is updated, held as a twin, ignored or refused.
-- Flags: none
-- Keys: {tag}meta
-- Arguments: channel, number, queue, if_exists (u update, i ignore, e error), origin of the ids (g generated,
--   c the caller: then perhaps a name for all calls that leave together), default head, then for each job: id, head
--   ('' for the default), payload
-- Replies: {letters, generation, ...}: a letter a job: a added, u updated, h held, i ignored; {"s"}, with nothing done:
--   too much is there already under these ids to be read in one call, or in one before it that left together with it:
--   send fewer at once, in the same order
-- Events: none (at level attempt)
local queue, if_exists, origin, default = args[3], args[4], string.sub(args[5], 1, 1), args[6]
local answer = begin(keys, args[1], args[2])
if answer then return answer end
if #args == 9 and origin == 'g' then
  answer = add_behind(queue, args[7], args[8] ~= '' and args[8] or default, args[9])
  if answer then return answer end
end

local n = (#args - 6) / 3
local ids, asks, by_head, heads = {}, {}, {}, {}
for i = 1, n do ids[i] = args[4 + 3 * i] end
if origin ~= 'g' and node(queue).bulky then
  local size, together = 0, #args[5] > 1 and K .. 's:' .. sub(args[5], 2)
  for i = 1, n do size = size + call('HSTRLEN', K .. 'j:' .. queue, ids[i]) end
  if (n > 1 and size > CALL_BYTES) or (together and call('EXISTS', together) == 1) then
    if together then call('SET', together, 1, 'PX', 60000) end
    return flush({ 's' })
  end
end
local old, running_ids, taken, ended_before = hmget(K .. 'j:' .. queue, ids), {}, {}, {}
local keys_of, seen, again = {}, {}, {}
for i = 1, n do
  keys_of[i] = queue .. '/' .. ids[i]
  again[i], seen[ids[i]] = seen[ids[i]], true
end
if origin == 'g' then
  for i = 1, n do
    if old[i] or again[i] then refuse('EXISTS', 'the generated id of job ' .. keys_of[i] .. ' is taken') end
  end
else
  local runs = hmget(K .. 'run', keys_of)
  for i = 1, n do
    running_ids[i] = runs[i]
    if not old[i] then
      local ended = call('GET', K .. 'r:' .. keys_of[i])
      local free_at = ended and tonumber(string.match(ended, '^%a %d+ %d+ (-?%d+) '))
      taken[i] = free_at and (free_at == -1 or free_at > now)
      ended_before[i] = ended
    end
    if if_exists == 'e' and (taken[i] or again[i] or (old[i] and not call('ZSCORE', K .. 'f:' .. queue, ids[i]))) then
      refuse('EXISTS', 'job ' .. keys_of[i] .. ' is there already')
    end
  end
end
for i = 1, n do
  local head = args[5 + 3 * i]
  if head == '' then head = default end
  local ask = by_head[head]
  if not ask then
    ask = decode_head(head, queue)
    by_head[head] = ask
    node(ask.path)
    if heads[ask.path] == nil then heads[ask.path] = tonumber(first_job(ask.path)[2] or math.huge) end
    if ask.at > now then call('ZCARD', K .. 'due') end
  end
  asks[i] = ask
end
anybody_waits()
-- Everything is read and checked: from here on only writes.

local letters, reply = {}, { '' }
rejuvenate(node(queue))
local batch = new_batch(queue, heads)
local gen = next_seq(n) - 1

for i = 1, n do
  local ask, id = asks[i], ids[i]
  if again[i] then
    write_batch(batch)
    old[i] = call('HGET', K .. 'j:' .. queue, id)
  end
  local rec = record_of(ask.prio, now, gen + i, ask.lane, ask.opts, args[6 + 3 * i])
  local letter, g = 'a', gen + i
  local job = old[i] and parse(old[i])
  local dead = job and not running_ids[i] and call('ZSCORE', K .. 'f:' .. queue, id)
  if taken[i] or (job and not dead and if_exists == 'i') then
    letter, g = 'i', job and job.gen or 0
  elseif running_ids[i] then
    letter, g = 'h', hold(queue, id, rec, ask)
  elseif job and not dead then
    letter, g = 'u', update_waiting(queue, id, job, rec, ask)
  else
    if dead then
      take_failed(queue, id, job)
      outlive(queue, id, job)
      forget_job(queue, id)
    end
    if dead or ended_before[i] then step_aside(queue, id) end
    add_to_batch(batch, id, rec, ask, i)
  end
  letters[i] = letter
  reply[i + 1] = g
end
write_batch(batch)
reply[1] = concat(letters)
return flush(reply)
