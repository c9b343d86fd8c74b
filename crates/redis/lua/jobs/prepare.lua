-- Prepares a queue of a shard for a worker: creates its group and its consumer, and registers the
-- queue. The consumer exists before its lease, so that the lease never looks like that of a removed
-- worker. Runs on a server without memory, although it adds some bytes: workers must be able to
-- empty the queue.
-- KEYS  queues, then for a stream: stream, leases
-- ARGV  member of queues, then for a stream: group, worker, lease in ms
expect_type(KEYS[1], 'set')
if KEYS[2] then
  expect_type(KEYS[3], 'hash')
  -- At `$` the group would skip what was enqueued before the first worker.
  local made = redis.pcall('XGROUP', 'CREATE', KEYS[2], ARGV[2], '0', 'MKSTREAM')
  if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then return made end
  redis.call('XGROUP', 'CREATECONSUMER', KEYS[2], ARGV[2], ARGV[3])
  redis.call('HSET', KEYS[3], ARGV[3], ARGV[4])
end
redis.call('SADD', KEYS[1], ARGV[1])
return 1
