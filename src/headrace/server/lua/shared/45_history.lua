-- The history (E36): hist, one entry a call with all its events; bounded by events, a trim is itself an event.
-- Entry fields: v schema, n number of events (gaps not counted), e the events one after the other. An event:
--   kind(1): d done f failed s stalled o timeout l released c cancelled g gap (its note: how many were lost so far)
--   length(2) "queue/id"   length(2) the entry of the run as in 60_run   ended ms(6) size of the result(4)
--   length(1) note

local HISTORY_SCHEMA = 1

--- One attempt that ended; `run` has key and e.
local function event(kind, run, note, size_out)
  if meta.hist == 0 then return end
  note = note and sub(note, 1, 255) or ''
  local raw = run.e.raw
  local key = run.key
  events[#events + 1] = struct.pack('>c1I2c0I2c0I6I4Bc0', kind, #key, key, #raw, raw, now, size_out or 0, #note, note)
end

--- An end without an attempt (a waiting job was cancelled).
local function event_waiting(kind, queue, id, job, note)
  if meta.hist == 0 then return end
  local common = common_of('', path_of(queue, job.lane), 0, 0, '', 0, 1, -1)
  local raw = entry_of(string.rep(' ', CLAIM), common, 0, 0, job.queued, job.gen, #job.rec - job.at)
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
local function write_history(set)
  local n = #events
  meta.hcount = meta.hcount + n
  if meta.hcount > meta.hmax then
    local lost = trim_history()
    if lost > 0 then
      local job = { lane = '', queued = 0, gen = 0, rec = '', at = 0 }
      -- In all so far, not this time: an older gap may be among what was just trimmed.
      event_waiting('g', '', '', job, string.format('%.0f', call('HINCRBY', K .. 'meta', 'hlost', lost)))
      meta.hcount = meta.hcount - lost
    end
  end
  call('XADD', K .. 'hist', '*', 'v', HISTORY_SCHEMA, 'n', n, 'e', concat(events))
  set[#set + 1] = 'hcount'
  set[#set + 1] = meta.hcount
end
