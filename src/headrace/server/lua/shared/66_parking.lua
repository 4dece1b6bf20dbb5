-- Parking (E15, E21): jobs whose task has no handler, or is stopped by a rule, wait with their task.
--
-- p:<queue>/<task>  ids by the place in line that they will have      parked  the names "queue/task" of those
-- rules             task -> pause (p) and block (b)

local task_stopped, unpark, resume_task

do -- a chunk of Lua has at most 200 locals: the others are of this file only

--- Until when rules stop a task (E21): nil when none does, infinity when nothing but a person ends it.
function task_stopped(task)
  local rule = meta.trules > 0 and call('HGET', K .. 'rules', task)
  if not rule then return nil end
  rule = unpack_(rule)
  local p, b = rule_active(rule.p), rule_active(rule.b)
  if not (p or b) then return nil end
  if (p and p.until_ == 0) or (b and b.until_ == 0) then return math.huge end
  return max(p and p.until_ or 0, b and b.until_ or 0)
end

--- Jobs of one queue that are parked with one task come back, at most `limit`; answers how many.
local function unpark_from(name, limit)
  local queue = split(name)
  local list, moved = call('ZRANGE', K .. 'p:' .. name, 0, limit - 1, 'WITHSCORES'), 0
  for i = 1, #list, 2 do
    if moved > 0 and spent() then break end
    local rec = read_record(queue, list[i])
    call('ZREM', K .. 'p:' .. name, list[i])
    moved = moved + 1
    if rec then
      local job = parse(rec)
      count(path_of(queue, job.lane), 'p', -1)
      put_job(queue, list[i], job, 0, tonumber(list[i + 1]))
    end
  end
  if call('EXISTS', K .. 'p:' .. name) == 0 then call('SREM', K .. 'parked', name) end
  return moved
end

local function as_set(list)
  local set = {}
  for i = 1, #(list or {}) do set[list[i]] = true end
  return set
end

--- What is parked for want of a session like this one comes back, at most `limit`: jobs of its tasks in its queues.
-- A name of a task may be one queue's alone: "queue/task".
function unpark(serves, limit)
  if call('SCARD', K .. 'parked') == 0 then return end
  local tasks, queues = as_set(serves.tasks), as_set(serves.queues)
  local all = queues['*'] or not next(queues)
  local names = call('SRANDMEMBER', K .. 'parked', 100) -- where tasks without a handler are many, others next time
  table.sort(names)
  for i = 1, #names do
    local queue, task = split(names[i])
    if (all or queues[queue]) and (tasks[task] or tasks[names[i]]) and not task_stopped(task) then
      limit = limit - unpark_from(names[i], limit)
      if limit <= 0 or spent() then return end
    end
  end
end

--- The rules of a task changed, or ended. What is parked with it comes back, some now, the rest by a timer
-- (`left` counts them down); while it is stopped, the timer is set to when that ends.
function resume_task(task, left)
  local ends, timer = task_stopped(task), '\t0\t' .. task
  if ends then return ends < math.huge and set_timer(timer, ends) end
  local names, moved = {}, 0
  for _, name in ipairs(call('SMEMBERS', K .. 'parked')) do
    if select(2, split(name)) == task then names[#names + 1] = name end
  end
  table.sort(names)
  if left == 0 then
    call('ZREM', K .. 'timers', timer)
    for i = 1, #names do left = left + call('ZCARD', K .. 'p:' .. names[i]) end
  end
  for i = 1, #names do
    if moved < 200 and (moved == 0 or not spent()) then moved = moved + unpark_from(names[i], 200 - moved) end
  end
  if moved > 0 and left > moved then set_timer(string.format('\t%d\t', left - moved) .. task, now) end
end

end
