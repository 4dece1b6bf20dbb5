-- Set up a queue, group or lane at run time; what an argument does not name stays as it is.
-- Flags: none
-- Keys: {tag}meta
-- Arguments: channel, number, path, msgpack of settings: c cap, rn/rw rate and window ms, p priority, w weight,
--   q quantum (-1: none), ag aging ms (queues), nb not before, fh options of failure jobs (a map; '-' off), forget
-- Replies: 1
-- Events: none
begin(keys)
local channel, number, path = args[1], args[2], args[3]
local answer = recall(channel, number)
if answer then return answer end
local ask = unpack_(args[4])
local name = K .. 'n:' .. path
local packed = call('HGET', name, 's')
local s = packed and unpack_(packed) or {}
local n = node(path)
local is_queue = n == n.queue
if ask.ag then
  if not is_queue then refuse('OPTION', 'aging is a setting of a queue, not of lane ' .. path) end
  local waiting = call('ZCARD', K .. 'z:' .. path) + ready_below(path)
  local same = (ask.ag == -1 and not n.aging) or ask.ag == n.aging
  if not same and waiting > 0 then
    refuse('CONFLICT', 'aging of queue ' .. path .. ' cannot change while ' .. waiting .. ' jobs wait in it')
  end
end
ensure(path)
for _, field in ipairs({ 'c', 'rn', 'rw', 'p', 'w', 'q' }) do
  if ask[field] == -1 then s[field] = nil
  elseif ask[field] then s[field] = ask[field] end
end
s.keep = not is_queue and (ask.forget and 0 or 1) or nil
if ask.forget then s.c, s.rn, s.rw, s.p, s.w, s.q = nil, nil, nil, nil, nil, nil end
if next(s) then call('HSET', name, 's', pack(s)) else call('HDEL', name, 's') end
if not s.rn then call('DEL', K .. 'g:' .. path) end
if ask.ag == -1 then call('HDEL', name, 'ag', 'bt')
elseif ask.ag and ask.ag ~= n.aging then call('HSET', name, 'ag', ask.ag, 'bt', now) end
if ask.nb then call('HSET', name, 'nb', ask.nb) end
if ask.fh == '-' then call('HDEL', name, 'fh')
elseif ask.fh then call('HSET', name, 'fh', next(ask.fh) and pack(ask.fh) or '') end
nodes = {}
dirty[path], idle[path] = true, true
wake_later(chain(path)[1], 1000)
flush()
return remember(channel, number, 1)
