-- Finishes jobs of stream entries, with a record or without: the hot path of settling. An entry's
-- id is its fence: a rescue removes the entry and adds a new one, so a late settlement acknowledges
-- nothing.
-- KEYS  jobs, waiters, notices, errands, keyed, stream, cancelled, then the record key of each job
--       that leaves a record
-- ARGV  channel, group, number of entries n, number of tracked ones m, number of records r, then n
--       entries (first those with a record, then other tracked ones), then m chains, then per
--       record: ms for which it is kept, record
-- Returns 1 if all were held and the outbox is empty, else for each entry 1 held or 0 lost; then
-- the outbox entries.
local shard, stream, cancelled = shard_context(ARGV[1]), KEYS[6], KEYS[7]
local group, n, m, r = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local chains, records = n + 5, n + m + 4
local tied = m > 0 and redis.call('EXISTS', shard.waiters, shard.keyed) > 0
if tied then expect_shard(shard) elseif m > 0 then expect_type(shard.jobs, 'hash') end
local has_cancelled = expect_type(cancelled, 'hash')
local out, all = {}, redis.call('XACK', stream, group, unpack(ARGV, 6, n + 5)) == n
if all then
  redis.call('XDEL', stream, unpack(ARGV, 6, n + 5))
  if m > 0 then redis.call('HDEL', shard.jobs, unpack(ARGV, chains + 1, chains + m)) end
  -- Cancellations are recorded under the chain of a job in the index, else under its entry.
  if has_cancelled then
    redis.call('HDEL', cancelled, unpack(ARGV, 6, n + 5))
    if m > 0 then redis.call('HDEL', cancelled, unpack(ARGV, chains + 1, chains + m)) end
  end
  if r == 0 and not tied then return 1 end
  for i = 1, n do out[i] = 1 end
else
  for i = 1, n do
    out[i] = redis.call('XDEL', stream, ARGV[i + 5])
    if out[i] == 1 then redis.call('HDEL', cancelled, ARGV[i + 5]) end
    if out[i] == 1 and i <= m then
      redis.call('HDEL', shard.jobs, ARGV[chains + i])
      redis.call('HDEL', cancelled, ARGV[chains + i])
    end
  end
end
local told = {}
for i = 1, r do
  if out[i] == 1 then
    redis.call('SET', KEYS[7 + i], ARGV[records + 2 * i + 1], 'PX', ARGV[records + 2 * i])
    told[#told + 1] = 'finished ' .. ARGV[chains + i]
  end
end
if #told > 0 then notify(shard.channel, table.concat(told, '\n')) end
if tied then
  for i = 1, m do
    if out[i] == 1 and i <= r then
      close_chain(shard, ARGV[chains + i], ARGV[records + 2 * i + 1], tonumber(ARGV[records + 2 * i]))
    elseif out[i] == 1 then
      close_chain(shard, ARGV[chains + i], '', 0)
    end
  end
elseif all then
  return 1
end
return with_outbox(out, shard)
