-- Read a part of the history, onwards from the oldest event or backwards from the newest.
-- Flags: no-writes
-- Keys: {tag}meta
-- Arguments: where the last call stopped (its first reply; '' at the beginning), most events, direction (up | down),
--   text that an entry must contain ('' for any)
-- Replies: where this call stopped, 1 when there may be more (else 0), the events of an entry, ... (45_history)
-- Events: none
--
-- A call ends with the entry that reaches the number of events or a bound below, so it is over in a few milliseconds.
-- Where it stopped is "epoch:entry": what was read of a shard that was lost says nothing about the one that followed.
local ENTRIES = 600            -- looked at in one call
local SENT, SEEN = 2 ^ 18, 2 ^ 20 -- bytes of events answered, and looked at
begin(keys)
local n, up, text = tonumber(args[2]), args[3] == 'up', args[4]
local epoch = call('HGET', K .. 'meta', 'epoch') or '?'
local was, id = string.match(args[1], '^(.*):([%d-]*)$')
if was ~= epoch then id = '' end
local command, last = up and 'XRANGE' or 'XREVRANGE', up and '+' or '-'
local reply, entries, sent, seen, found, more = { '', 0 }, 0, 0, 0, 0, 1
local step = 4 -- entries read at once: as many as are likely to fit, since one may hold 30 kB or 100 bytes
while more == 1 and found < n and entries < ENTRIES and sent < SENT and seen < SEEN do
  local from = id ~= '' and '(' .. id or up and '-' or '+'
  local page = call(command, K .. 'hist', from, last, 'COUNT', step)
  if #page < step then more = 0 end
  for i = 1, #page do
    id = page[i][1]
    local fields = page[i][2]
    local raw = fields[5] == 'e' and fields[6] or '' -- a stranger's entry has none
    entries, seen = entries + 1, seen + #raw
    if raw ~= '' and (text == '' or find(raw, text, 1, true)) then
      reply[#reply + 1] = raw
      sent, found = sent + #raw, found + max(1, tonumber(fields[4]) or 1)
    end
    if found >= n then
      if i < #page then more = 1 end
      break
    end
  end
  step = max(1, min(100, ENTRIES - entries, floor((SEEN - seen) / (seen / entries + 1) / 4), n - found))
end
reply[1], reply[2] = epoch .. ':' .. id, more
return reply
