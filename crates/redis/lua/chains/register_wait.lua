-- Registers jobs with the chains they wait for, in the shard of those chains. Twice is once.
-- KEYS  jobs, waiters, notices, then the record key of each chain
-- ARGV  per chain: chain, waiter ('CHAIN MARK POSITION QUEUE JOB')
-- Returns for each: 'open'; 'kept' and its record in one; 'removed'; or 'missing'.
local h = { jobs = KEYS[1], waiters = KEYS[2], notices = KEYS[3] }
expect(h.waiters, 'zset')
expect(h.jobs, 'hash')
expect(h.notices, 'hash')
local out, records = {}, {}
for n = 1, #ARGV / 2 do records[n] = redis.call('GET', KEYS[3 + n]) end
for i = 1, #ARGV, 2 do
  local n, chain = (i + 1) / 2, ARGV[i]
  -- One whose waiters are still being told has closed, whatever has its id by now.
  local notice = redis.call('HGET', h.notices, chain)
  local record = notice or records[n]
  if not notice and redis.call('HEXISTS', h.jobs, chain) == 1 then
    redis.call('ZADD', h.waiters, 0, ARGV[i + 1])
    out[n] = 'open'
  elseif notice == '' then
    out[n] = 'removed'
  else
    out[n] = record and 'kept' .. record or 'missing'
  end
end
return out
