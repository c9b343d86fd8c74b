-- Registers jobs with the chains they wait for, in the shard of those chains. May be repeated.
-- KEYS  jobs, waiters, notices, then the record key of each chain
-- ARGV  per chain: chain, waiter ('CHAIN MARK POSITION QUEUE JOB')
-- Returns for each: 'open'; 'kept' followed by its record; 'removed'; or 'missing'.
local shard = { jobs = KEYS[1], waiters = KEYS[2], notices = KEYS[3] }
expect_type(shard.waiters, 'zset')
expect_type(shard.jobs, 'hash')
expect_type(shard.notices, 'hash')
local out, records = {}, {}
for n = 1, #ARGV / 2 do records[n] = redis.call('GET', KEYS[3 + n]) end
for i = 1, #ARGV, 2 do
  local n, chain = (i + 1) / 2, ARGV[i]
  -- A chain whose waiters are not all notified has closed, even if its id has been reused.
  local notice = redis.call('HGET', shard.notices, chain)
  local record = notice or records[n]
  if not notice and redis.call('HEXISTS', shard.jobs, chain) == 1 then
    redis.call('ZADD', shard.waiters, 0, ARGV[i + 1])
    out[n] = 'open'
  elseif notice == '' then
    out[n] = 'removed'
  else
    out[n] = record and 'kept' .. record or 'missing'
  end
end
return out
