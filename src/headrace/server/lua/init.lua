-- Make a shard, or check that it is the one that is asked for. The only function that creates {tag}meta.
-- Flags: allow-oom
-- Keys: {tag}meta
-- Arguments: shard count, a new epoch (used when the shard is new)
-- Replies: {format, shard count, epoch, 1 when made now else 0}
-- Events: none
if not call then borrow() end
local k = keys[1]
local m = call('HMGET', k, 'format', 'shards', 'epoch')
if m[1] then
  if tonumber(m[1]) > FORMAT then
    refuse('UPGRADE', 'the data has format ' .. m[1] .. ', this version reads up to ' .. FORMAT)
  end
  if tonumber(args[1]) > 0 and m[2] ~= args[1] then
    refuse('MISMATCH', 'the server holds ' .. m[2] .. ' shard(s), you asked for ' .. args[1])
  end
  return { tonumber(m[1]), tonumber(m[2]), m[3], 0 }
end
local shards = max(1, tonumber(args[1]))
-- The sequence begins beyond all that a lost shard may have handed out, so that no generation or claim comes again.
local first = max(0, (clock(sub(k, 1, -5)) - 1767225600000) * 10)
call('HSET', k, 'format', FORMAT, 'shards', shards, 'epoch', args[2], 'seq', string.format('%.0f', first), 'hist', 1)
return { FORMAT, shards, args[2], 1 }
