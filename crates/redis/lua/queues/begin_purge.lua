-- Begins a purge: sets apart the scheduled jobs and, of a list, the ready ones in one step, and
-- returns up to which entry to purge a stream. So jobs added later are not deleted. If the caller
-- dies, others complete the purge by the outbox entry.
-- KEYS  jobs, waiters, notices, errands, keyed, target, scheduled, purged, purged list
-- ARGV  one map: channel, kind ('s' or 'l'), queue
-- Returns the time in ms, the last entry of the stream ('0-0' if there is none), and the outbox
-- entry. Or, with nothing written, 'busy' if an earlier purge has set jobs apart that still exist.
local args = cmsgpack.unpack(ARGV[1])
local shard, kind, last = shard_context(args.channel), args.kind, '0-0'
local target, scheduled, purged, list = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
expect_type(shard.errands, 'zset')
expect_type(target, kind == 's' and 'stream' or 'list')
expect_type(scheduled, 'zset')
if redis.call('EXISTS', purged, list) > 0 then return { 'busy' } end
if kind == 's' and redis.call('EXISTS', target) == 1 then
  local about = redis.call('XINFO', 'STREAM', target)
  for i = 1, #about, 2 do
    if about[i] == 'last-generated-id' then last = about[i + 1] end
  end
end
add_outbox(shard, 'p ' .. kind .. ' ' .. last .. ' ' .. args.queue)
if redis.call('EXISTS', scheduled) == 1 then redis.call('RENAME', scheduled, purged) end
if kind == 'l' and redis.call('EXISTS', target) == 1 then redis.call('RENAME', target, list) end
return with_outbox({ int_text(now()), last }, shard)
