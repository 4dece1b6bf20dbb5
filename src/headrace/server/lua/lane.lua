-- Set up a queue, group or lane at run time; what an argument does not name stays as it is.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: channel, number, path, msgpack of settings: c cap, rn/rw rate and window ms, p priority, w weight,
--   q quantum (-1: none), ag aging ms (queues), nb not before, fh options of failure jobs (a map; '-' off), forget
-- Replies: 1
-- Events: none
local path = args[3]
local answer = begin(keys, args[1], args[2])
if answer then return answer end
local ask = unpack_(args[4])
local name = K .. 'n:' .. path
local n = node(path)
local s = n.settings or {}
local is_queue = n == n.queue
if ask.ag then
  if not is_queue then refuse('OPTION', 'aging is a setting of a queue, not of lane ' .. path) end
  local taken = places_taken(path)
  if (ask.ag > 0 and ask.ag or nil) ~= n.aging and taken > 0 then
    refuse('CONFLICT', 'aging of queue ' .. path .. ' cannot change while ' .. taken .. ' jobs wait or run in it')
  end
end
ensure(path)
if ask.forget then s = { pa = s.pa, bl = s.bl, ag = s.ag, bt = s.bt, big = s.big } end
for _, field in ipairs({ 'c', 'rn', 'rw', 'p', 'w', 'q', 'ag', 'nb' }) do
  if ask[field] == -1 or (field == 'nb' and ask.nb == 0) then s[field] = nil
  elseif ask[field] then s[field] = ask[field] end
end
if s.ag and s.ag ~= n.aging then s.bt = now end
if s.ag and not meta.aged then call('HSET', K .. 'meta', 'aged', 1) end -- from now on, an enqueue looks
if not s.ag then s.bt = nil end
s.keep = not is_queue and not ask.forget and 1 or nil
if s.c ~= n.cap then call('HINCRBY', K .. 'meta', 'capver', 1) end
save_settings(path, s)
if s.rn then call('PEXPIRE', K .. 'g:' .. path, s.rw + 1000) else call('DEL', K .. 'g:' .. path) end
if ask.fh == '-' then call('HDEL', name, 'fh')
elseif ask.fh then call('HSET', name, 'fh', next(ask.fh) and pack(ask.fh) or '') end
nodes = {}
dirty[path], idle[path] = true, true
wake_later(chain(path)[1], 1000)
return flush(1)
