-- Adding new jobs of one queue: gathered first, then written with as few commands as there are lanes.

--- `heads` holds the score of each lane's first job, read before: only a job that goes before it moves the lane.
local function new_batch(queue, heads)
  return { queue = queue, heads = heads, records = {}, ready = {} }
end

local function add_to_batch(batch, id, rec, ask, i)
  local path = ask.path
  local records = batch.records
  local at = #records
  records[at + 1], records[at + 2] = id, rec
  mark_bulky(batch.queue, rec)
  ensure(path)
  if ask.at > now then return put_due(batch.queue, id, path, ask.at) end
  local list = batch.ready[path]
  if not list then
    list = {}
    batch.ready[path] = list
  end
  local score = job_score(node(batch.queue), ask.prio, i - 1)
  at = #list
  list[at + 1], list[at + 2] = score, id
  if score < batch.heads[path] then dirty[path] = true end
end

local function write_batch(batch)
  many('HSET', K .. 'j:' .. batch.queue, batch.records)
  for path, list in pairs(batch.ready) do
    many('ZADD', K .. 'z:' .. path, list)
    count(path, 'r', #list / 2)
    wake_later(batch.queue, #list / 2)
  end
  batch.records, batch.ready = {}, {}
end

--- The common case, with as few commands as there can be: one new job behind others of its queue, with nobody
-- waiting for it, so that no index, counter or waiter is touched. Answers nil, with nothing written, in any other.
local function add_behind(queue, id, head, payload)
  local ask = read_head(head)
  if ask.lane ~= '' or ask.delay > 0 or ask.at > now or #payload + #(ask.opts or '') + 100 > BULKY then return nil end
  if meta.aged and node(queue).aging then return nil end
  local line = K .. 'z:' .. queue
  local first = call('ZRANGE', line, 0, 0, 'WITHSCORES')
  local score = (100 - ask.prio) * BAND + seq + 1
  if not first[2] or tonumber(first[2]) > score or anybody_waits() then return nil end
  local rec = record_of(ask.prio, now, seq + 1, '', ask.opts, payload)
  if call('HSETNX', K .. 'j:' .. queue, id, rec) == 0 then return nil end
  call('ZADD', line, score, id)
  local set = { 'seq', next_seq() }
  local answer = { 'a', seq }
  add_answer(set, answer)
  call('HSET', K .. 'meta', unpack(set))
  return answer
end
