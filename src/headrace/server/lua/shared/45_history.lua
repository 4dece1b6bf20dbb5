-- The history (E36): hist, one entry a call with all its events; bounded by events, a trim is itself an event.
-- Entry fields: v schema, n number of events (gaps not counted), e the events one after the other. An event:
--   kind(1): d done f failed s stalled o timeout l released c cancelled g gap (its note: how many were lost so far)
--   length(2) "queue/id"   length(2) the entry of the run as in 43_run   ended ms(6) size of the result(4)
--   length(1) note
-- `events` gathers the pieces of all events of a call; they are put together once, by `flush`.

local event, event_waiting, write_history

do -- a chunk of Lua has at most 200 locals: the others are of this file only

local HISTORY_SCHEMA = 1

local PIECES = 5

--- A length as two bytes. There are few of them: each is made once.
local lengths = {}
local function length_of(text)
  local n = #text
  if not lengths[n] then lengths[n] = struct.pack('>I2', n) end
  return lengths[n]
end

--- One attempt that ended; `run` has key and e.
function event(kind, run, note, size_out)
  if meta.hist == 0 then return end
  local raw, key, n = run.e.raw, run.key, #events
  note, size_out = note and sub(note, 1, 255) or '', size_out or 0
  if note ~= '' or size_out ~= events.size then -- else it ends as the last one did
    events.ending = struct.pack('>I6I4Bc0', now, size_out, #note, note)
    events.size = note == '' and size_out or nil
  end
  events[n + 1], events[n + 2], events[n + 3] = kind .. length_of(key), key, length_of(raw)
  events[n + 4], events[n + 5] = raw, events.ending
end

--- An end without an attempt (a waiting job was cancelled).
function event_waiting(kind, queue, id, job, note)
  if meta.hist == 0 then return end
  local common = common_of('', path_of(queue, job.lane), 0, 0, '-', 0, 1, -1)
  local raw = entry_of(string.rep(' ', CLAIM), common, 0, 0, born_of(job.rec), #job.rec - job.at)
  event(kind, { key = queue .. '/' .. id, e = { raw = raw } }, note)
end

--- Drop the oldest entries when the stream is over its bound; answers how many events were lost.
local function trim_history()
  local lost, ids = 0, {}
  for _, entry in ipairs(call('XRANGE', K .. 'hist', '-', '+', 'COUNT', 10)) do
    if meta.hcount - lost <= meta.hmax then break end
    ids[#ids + 1] = entry[1]
    lost = lost + tonumber(entry[2][4])
  end
  if ids[1] then call('XDEL', K .. 'hist', unpack(ids)) end
  return lost
end

--- Append the events of this call; `set` gets the fields of meta that changed.
function write_history(set)
  local n = #events / PIECES
  meta.hcount = meta.hcount + n
  if meta.hcount > meta.hmax then
    local lost = trim_history()
    if lost > 0 then
      local job = { lane = '', rec = '\0\0' .. NEVER_BORN, at = 14 }
      -- In all so far, not this time: an older gap may be among what was just trimmed.
      event_waiting('g', '', '', job, string.format('%.0f', call('HINCRBY', K .. 'meta', 'hlost', lost)))
      meta.hcount = meta.hcount - lost
    end
  end
  call('XADD', K .. 'hist', '*', 'v', HISTORY_SCHEMA, 'n', n, 'e', concat(events))
  set[#set + 1] = 'hcount'
  set[#set + 1] = meta.hcount
end

end
