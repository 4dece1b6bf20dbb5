-- Time is a key that the test sets, in whole milliseconds; the server's where it is not set.
local function clock(tag)
  local set = redis.call('GET', tag .. 'clock')
  if set then return tonumber(set) end
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
