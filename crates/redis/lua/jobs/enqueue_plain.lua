-- Adds jobs to a stream whose ids were made for this call, all due now: all or none, and once
-- however often it is called. The hot path of enqueueing. No other job can have such an id, so the
-- script checks none. A write that could fail half-way fails before the first one, or takes back
-- the receipt.
-- KEYS  stream, jobs, queues, receipt
-- ARGV  queue, number of the call, TTL of its receipt in ms, '1' to renew that TTL, then per job:
--       chain, envelope
-- Returns how many jobs were added: none by a repeat.
local stream, jobs, queues, receipt, member = KEYS[1], KEYS[2], KEYS[3], KEYS[4], 's ' .. ARGV[1]
local call, number, life = redis.call, ARGV[2], ARGV[3]
call('HLEN', jobs)
local is_known = call('SISMEMBER', queues, member) == 1
-- One command reads and writes the receipt. Setting its TTL too costs as much again, so that is
-- rare.
local last_number = call('SET', receipt, number, 'KEEPTTL', 'GET')
if last_number and (tonumber(last_number)
  or tonumber(string.match(last_number, '^%d+'))) >= tonumber(number) then
  -- A write, so that the replicas that confirm it have the jobs as well.
  call('SET', receipt, last_number, 'PX', life)
  return 0
end
if not last_number or ARGV[4] == '1' then call('PEXPIRE', receipt, life) end
local index, location_prefix = {}, member .. ' '
for i = 5, #ARGV, 2 do
  local entry = redis.pcall('XADD', stream, '*', 'data', ARGV[i + 1])
  if type(entry) == 'table' then
    if last_number then call('SET', receipt, last_number, 'KEEPTTL') else call('DEL', receipt) end
    return entry
  end
  index[i - 4] = ARGV[i]
  index[i - 3] = location_prefix .. entry
end
call('HSET', jobs, unpack(index))
if not is_known then call('SADD', queues, member) end
return #index / 2
