-- Time is the server's, in whole milliseconds.
local function clock(tag)
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
