-- Looking at one job, whatever its status: what `look`, `watch` and `explain` share.

--- The place of a job that has a record: status and the time that goes with it.
local function place_of(queue, id, job)
  local key = queue .. '/' .. id
  local e = run_of(key)
  if e then return 'running', e.c[3], e end
  local due = call('ZSCORE', K .. 'due', key)
  if due then return 'scheduled', tonumber(due) end
  local failed = call('ZSCORE', K .. 'f:' .. queue, id)
  if failed then return 'failed', tonumber(failed) end
  if call('ZSCORE', K .. 'p:' .. parking(queue, job), id) then return 'ready', job.queued, nil, true end
  if call('ZSCORE', K .. 'z:' .. path_of(queue, job.lane), id) then return 'ready', job.queued end
  return 'stranded', job.queued
end

local STATUS = { d = 'done', f = 'failed', c = 'cancelled', m = 'merged' }

--- An outcome that was kept: status, generation, time, body; follows a merge to the generation that went on.
local function outcome_of(key, gen)
  local value = call('GET', K .. 'r:' .. key)
  local letter, g, at, body
  if value then letter, g, at, body = string.match(value, '^(%a) (%d+) (%d+) %-?%d+ (.*)$') end
  if gen > 0 and tonumber(g) ~= gen then
    value = call('GET', K .. 'r:' .. key .. '\n' .. string.format('%.0f', gen))
    if not value then return nil end
    letter, g, at, body = string.match(value, '^(%a) (%d+) (%d+) %-?%d+ (.*)$')
  end
  if not letter then return nil end
  return STATUS[letter], tonumber(g), tonumber(at), body
end

--- Everything about one generation of a job (0: the latest): see `look` for the fields.
local function look_at(queue, id, gen, hops)
  local key = queue .. '/' .. id
  local held = call('HGET', K .. 'h:' .. queue, id)
  local twin = held and unpack_(held)
  if twin and gen > 0 then
    local job = parse(twin.rec)
    if job.gen == gen then return { 'held', gen, twin.rec, '', twin.at, '', '', 0, '', '', 0 } end
  end
  local rec = call('HGET', K .. 'j:' .. queue, id)
  if rec then
    local job = parse(rec)
    if gen == 0 or job.gen == gen then
      local status, at, e, parked = place_of(queue, id, job)
      local c = counts_of(call('HGET', K .. 't:' .. queue, id))
      local counts = concat({ e and e.attempt or c.a, c.f, c.s, c.o }, ' ')
      return { status, job.gen, rec, counts, at, call('HGET', K .. 'e:' .. queue, id) or '',
        call('HGET', K .. 'pr', key) or '', held and 1 or 0, c.c or '',
        e and e.c[1] or parked and option(job, 'n') or '', parked and 1 or 0 }
    end
  end
  local status, g, at, body = outcome_of(key, gen)
  if status == 'merged' then
    if (hops or 0) < 100 then return look_at(queue, id, g, (hops or 0) + 1) end
    status = nil -- merged so often that nobody keeps up
  end
  if not status then return { '', 0, '', '', 0, '', '', held and 1 or 0, '', '', 0 } end
  return { status, g, '', '', at, body, '', held and 1 or 0, '', '', 0 }
end
