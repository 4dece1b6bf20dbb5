-- Pause or block a queue, lane or task, or take that back. A block wins over any pause.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: channel, number, "path" | "task", its name, "pa" | "bl", "set" | "clear", who, why, until ms or 0
-- Replies: 1 when something changed, else 0
-- Events: none
local kind, name, which, set = args[3], args[4], args[5], args[6] == 'set'
local answer = begin(keys, args[1], args[2])
if answer then return answer end
local rule = { who = args[7], why = args[8], since = now, until_ = tonumber(args[9] or 0) }
local changed = 0
if kind == 'task' then
  local old = call('HGET', K .. 'rules', name)
  local both = old and unpack_(old) or {}
  local field = which == 'pa' and 'p' or 'b'
  if set or both[field] then changed = 1 end
  both[field] = set and rule or nil
  if next(both) then call('HSET', K .. 'rules', name, pack(both)) else call('HDEL', K .. 'rules', name) end
  meta.trules = call('HLEN', K .. 'rules')
  call('HSET', K .. 'meta', 'trules', meta.trules)
  resume_task(name, 0)
else
  local n = node(name)
  local s = n.settings or {}
  if set or s[which] then changed = 1 end
  if set then ensure(name) end
  s[which] = set and rule or nil
  if changed == 1 then save_settings(name, s) end
  nodes = {}
  idle[name] = true
  dirty[name] = true
  if not set and changed == 1 then wake_later(chain(name)[1], 1000) end
end
return flush(changed)
