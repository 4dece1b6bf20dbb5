-- Functions that test the transports: numbered calls, errors, tokens and messages, and nothing of the engine.

local function named(name, body)
  redis.register_function('PREFIX_' .. name, body)
end

named('echo', function(keys, args)
  return args
end)

-- <channel> <number> <counter> <by>: adds once however often the same number comes.
named('add', function(keys, args)
  local tag = string.match(keys[1], '^{.-}')
  local channel, number = tag .. 'channel:' .. args[1], tonumber(args[2])
  local last = tonumber(redis.call('HGET', channel, 'number') or '0')
  if number < last then
    return redis.error_reply('HR_STALE number ' .. number .. ' came after ' .. last)
  end
  if number == last then
    return tonumber(redis.call('HGET', channel, 'answer'))
  end
  local sum = redis.call('INCRBY', tag .. args[3], args[4])
  redis.call('HSET', channel, 'number', number, 'answer', sum)
  return sum
end)

-- <counter>: adds one each time it is called.
named('bump', function(keys, args)
  return redis.call('INCR', string.match(keys[1], '^{.-}') .. args[1])
end)

named('read', function(keys, args)
  return redis.call('GET', string.match(keys[1], '^{.-}') .. args[1])
end)

named('fail', function(keys, args)
  return redis.error_reply(args[1])
end)

named('raise', function(keys, args)
  error(args[1])
end)

named('wrongtype', function(keys, args)
  local key = string.match(keys[1], '^{.-}') .. 'foreign'
  redis.call('SET', key, 'x')
  return redis.call('LPUSH', key, 'y')
end)

named('push', function(keys, args)
  return redis.call('RPUSH', args[1], 'token')
end)

named('publish', function(keys, args)
  redis.call('PUBLISH', args[1], args[2])
  return 1
end)
