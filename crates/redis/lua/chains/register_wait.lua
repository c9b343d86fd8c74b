-- Registers jobs with the chains they wait for, in the shard of those chains. May be repeated.
-- KEYS  jobs, waiters, notices, then the record key of each chain
-- ARGV  one map: chains: the chain and the waiter ('CHAIN MARK POSITION QUEUE JOB') of each
-- Returns for each: 'open'; 'kept' followed by its record; 'removed'; or 'missing'.
local shard = { jobs = KEYS[1], waiters = KEYS[2], notices = KEYS[3] }
expect_type(shard.waiters, 'zset')
expect_type(shard.jobs, 'hash')
expect_type(shard.notices, 'hash')
local args, out, records = cmsgpack.unpack(ARGV[1]), {}, {}
for n in ipairs(args.chains) do records[n] = redis.call('GET', KEYS[3 + n]) end
for n, wait in ipairs(args.chains) do
  local chain = wait.chain
  -- A chain whose waiters are not all notified has closed, even if its id has been reused.
  local notice = redis.call('HGET', shard.notices, chain)
  local record = notice or records[n]
  if not notice and redis.call('HEXISTS', shard.jobs, chain) == 1 then
    redis.call('ZADD', shard.waiters, 0, wait.waiter)
    out[n] = 'open'
  elseif notice == '' then
    out[n] = 'removed'
  else
    out[n] = record and 'kept' .. record or 'missing'
  end
end
return out
