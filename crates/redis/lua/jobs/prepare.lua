-- Makes a shard of a queue ready for a worker: its group exists, its consumer is there before its lease, so that
-- the lease is never taken for that of one that has left, and the queue can be found. It adds a few bytes, and runs
-- on a full server all the same: whoever comes to empty it must be let in.
-- KEYS  queues, then for a stream: stream, leases
-- ARGV  member of queues, then for a stream: group, worker, lease in ms
expect(KEYS[1], 'set')
if KEYS[2] then
  expect(KEYS[3], 'hash')
  -- At `$` the group would skip what was enqueued before the first worker came.
  local made = redis.pcall('XGROUP', 'CREATE', KEYS[2], ARGV[2], '0', 'MKSTREAM')
  if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then return made end
  redis.call('XGROUP', 'CREATECONSUMER', KEYS[2], ARGV[2], ARGV[3])
  redis.call('HSET', KEYS[3], ARGV[3], ARGV[4])
end
redis.call('SADD', KEYS[1], ARGV[1])
return 1
