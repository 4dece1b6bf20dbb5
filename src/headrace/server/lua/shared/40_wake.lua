-- Waking (E26): a session that found nothing waits on a list of its own, registered by the claim itself.
--
-- waiters      waiter -> when its wait ends by itself      w:<queue>  waiters that serve a queue ("w:*": any)
-- wl:<waiter>  the list it blocks on: a token means "look again"

--- Whether anybody waits; asked once a call, and not at all when by now even the last who waited is up (`awake`).
local function anybody_waits()
  if waiting == nil then
    waiting = meta.awake >= now and call('ZCARD', K .. 'waiters') > 0
      and call('ZCOUNT', K .. 'waiters', now, '+inf') > 0
  end
  return waiting
end

--- Wake up to `n` waiters that serve a queue.
local function wake(queue, n)
  if n <= 0 or not anybody_waits() then return end
  for _, line in ipairs({ K .. 'w:' .. queue, K .. 'w:*' }) do
    while n > 0 do
      local e = call('ZPOPMIN', line)
      if not e[1] then break end
      -- One that is over may be of a waiter that serves other queues now: that is not to be taken off.
      if tonumber(e[2]) >= now and call('ZREM', K .. 'waiters', e[1]) == 1 then
        call('LPUSH', K .. 'wl:' .. e[1], 1)
        call('PEXPIRE', K .. 'wl:' .. e[1], 10000)
        n = n - 1
      end
    end
  end
end

--- Ask `flush` to wake waiters for `n` more jobs of a queue.
local function wake_later(queue, n) wakes[queue] = (wakes[queue] or 0) + n end

--- Who took a token may have taken other work than it was meant for, or none: what may start in these queues wakes
-- whoever else serves them.
local function pass_on(queues)
  if not anybody_waits() then return end
  local names = queues == '*' and call('ZRANGE', K .. 'i:', 0, 9) or queues
  for i = 1, #names do
    if call('ZSCORE', K .. 'i:', names[i]) then wake(names[i], 1) end
  end
end

--- The shortest lease of a live session; nil when there is none.
local function shortest_lease()
  local least
  for _, lease in ipairs(call('HKEYS', K .. 'leases')) do least = min(tonumber(lease), least or math.huge) end
  return least
end

--- The next moment at which time alone makes work: a schedule, a rate, a rule's end, a deadline; in a moment while
-- jobs of dead sessions are to go back (not at once: all that wait would turn as fast as they can).
local function next_due()
  if meta.dying > 0 then return now + 1 end
  local at = math.huge
  for _, index in ipairs({ 'due', 'timers', 'dl' }) do
    local e = call('ZRANGE', K .. index, 0, 0, 'WITHSCORES')
    if e[1] then at = min(at, tonumber(e[2])) end
  end
  return at
end

--- Something is due at `at`: when nobody who waits would be up by then, wake one to look at the clock again.
local function alarm(at)
  local first = call('ZRANGEBYSCORE', K .. 'waiters', now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if not first[1] or at >= tonumber(first[2]) then return end
  local e = call('ZPOPMAX', K .. 'waiters')
  call('LPUSH', K .. 'wl:' .. e[1], 1)
  call('PEXPIRE', K .. 'wl:' .. e[1], 10000)
end
