-- Put dead letters back in line with fresh counts, or delete them.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: channel, number, queue, "replay" | "drop", at most, id, ... (none: the oldest ones)
-- Replies: {jobs that were moved, ids that are left over because there was too much to read: ask for them again}
-- Events: none
local queue, what, limit = args[3], args[4], tonumber(args[5])
local answer = begin(keys, args[1], args[2])
if answer then return answer end
local ids = {}
for i = 6, #args do ids[#ids + 1] = args[i] end
if #ids == 0 then ids = call('ZRANGE', K .. 'f:' .. queue, 0, limit - 1) end
local n, left = 0, 0
for i = 1, #ids do
  if spent() then
    left = #ids - i + 1
    break
  end
  local rec = read_record(queue, ids[i])
  local job = rec and parse(rec)
  if job and take_failed(queue, ids[i], job) then
    n = n + 1
    if what == 'drop' then
      forget_job(queue, ids[i])
    else
      call('HDEL', K .. 't:' .. queue, ids[i])
      call('HDEL', K .. 'e:' .. queue, ids[i])
      put_job(queue, ids[i], job, 0)
    end
  end
end
return flush({ n, left })
