-- The history (E36): hist, one entry a call with all its events; bounded by events, a trim is itself an event.
-- Entry fields: v schema, n number of events, e msgpack array of events. An event is an array:
-- kind queue id generation lane attempt queued started ended session size-in size-out note.

local HISTORY_SCHEMA = 1

--- Drop the oldest entries when the stream is over its bound; answers how many events were lost.
local function trim_history()
  local lost, ids = 0, {}
  for _, entry in ipairs(call('XRANGE', K .. 'hist', '-', '+', 'COUNT', 10)) do
    if meta.hcount - lost <= meta.hmax then break end
    ids[#ids + 1] = entry[1]
    lost = lost + tonumber(entry[2][4])
  end
  if ids[1] then call('XDEL', K .. 'hist', unpack(ids)) end
  return lost, ids[#ids]
end

write_history = function(set)
  local n = #events
  meta.hcount = meta.hcount + n
  if meta.hcount > meta.hmax then
    local lost, last = trim_history()
    if lost > 0 then
      events[n + 1] = { 'gap', '', '', 0, '', lost, 0, 0, now, '', 0, 0, last }
      n = n + 1
      meta.hcount = meta.hcount - lost + 1
    end
  end
  call('XADD', K .. 'hist', '*', 'v', HISTORY_SCHEMA, 'n', n, 'e', pack(events))
  set[#set + 1] = 'hcount'
  set[#set + 1] = meta.hcount
end
