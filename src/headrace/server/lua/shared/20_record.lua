-- A job's record (j:<queue>, id): a header written once, then options that differ from the defaults, then the payload.
--
-- header  flags(1) priority(1) queued ms(6) generation(6) lane length(1) lane
-- options only when flags is odd: length(2), msgpack map with one-letter names (see OPTIONS)
-- payload codec(1) bytes: never looked into here
-- What changes (counts, cancel mark) is in t:<queue>, which exists from the first deviation on.

local HEADER = '>BBI6I6Bc0'

-- Options as they travel, with their defaults; -1 says "no limit". Times are milliseconds.
-- f max_failures  s max_stalls  o max_timeouts  t timeout  b min_backoff  x max_backoff
-- k keep_result   d keep_failed  u unique_for   n task's name
local OPTIONS = { f = 10, s = 3, o = 3, t = -1, b = 2000, x = 300000, k = 600000, d = 604800000, u = 0 }

local function record_of(prio, queued, gen, lane, opts, payload)
  local head = struct.pack(HEADER, opts and 1 or 0, prio, queued, gen, #lane, lane)
  if opts then return head .. struct.pack('>I2', #opts) .. opts .. payload end
  return head .. payload
end

local NEVER_BORN = '\0\0\0\0\0\0\0\0\0\0\0\0'

--- The twelve bytes of a record that say when its job was queued, and its generation.
local function born_of(rec) return sub(rec, 3, 14) end

--- The packed options of a record, or nil, and where its payload begins: what a claim needs, for less than `parse`.
local function options_in(rec)
  local at = 16 + byte(rec, 15)
  if byte(rec) == 0 then return nil, at end
  local high, low = byte(rec, at, at + 1)
  local ends = at + 2 + high * 256 + low
  return sub(rec, at + 2, ends - 1), ends
end

-- What one call may read of records (E25): loops over many jobs stop beyond it, and go on in the next call.
local CALL_BYTES = 1048576

local function spent() return meta.read > CALL_BYTES end

--- A record, counted among what this call has read.
local function read_record(queue, id)
  local rec = call('HGET', K .. 'j:' .. queue, id)
  if rec then meta.read = meta.read + #rec end
  return rec
end

--- Parse the header; options stay packed in `o` (or nil) until `option` needs them.
local function parse(rec)
  local flags, prio, queued, gen, lane, at = struct.unpack(HEADER, rec)
  local o
  if flags == 1 then o, at = struct.unpack('>I2c0', rec, at) end
  return { prio = prio, queued = queued, gen = gen, lane = lane, o = o, at = at, rec = rec }
end

local function option(job, name)
  if not job.o then return OPTIONS[name] end
  local v = unpack_once(job.o)[name]
  if v == nil then return OPTIONS[name] end
  return v
end

local function payload_of(job) return sub(job.rec, job.at) end

-- Where a job stands in its lane. Strict: by priority, then arrival. Aging (E4): by time of arrival less one
-- step of `aging` for each level of priority, fixed when it becomes ready.

local BAND = 1e13        -- of an index or lane in strict order: level * BAND + turn or arrival
local AGED = 1e9         -- of an index under aging: exact for 104 days at one second a level, 17 years at a minute

local function job_score(queue_node, prio, i)
  if queue_node.aging then
    local x = (now - queue_node.birth + (100 - prio) * queue_node.aging) * 256 + min(i or 0, 255)
    return x * 128 + (100 - prio)
  end
  return (100 - prio) * BAND + next_seq()
end

--- The level (0 goes first) that a job's score stands for.
local function job_level(queue_node, score)
  if queue_node.aging then return min(floor(score / 32768 / queue_node.aging), 8999999) end
  return floor(score / BAND)
end

local function job_prio(queue_node, score)
  if queue_node.aging then return 100 - score % 128 end
  return 100 - floor(score / BAND)
end

-- Counts of a job that has deviated (t:<queue>): attempts, failures, stalls, timeouts, cancelled by.
local function counts_of(packed)
  if packed then return unpack_(packed) end
  return { a = 0, f = 0, s = 0, o = 0 }
end
