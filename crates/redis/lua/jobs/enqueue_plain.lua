-- Adds jobs to a stream whose ids were made for this very call, all due now: all of them or none, and once however often
-- it is called. The hot path of enqueueing. Nothing can have such an id, so nothing is asked about each; what would fail
-- half-way fails before, or takes back the receipt.
-- KEYS  stream, jobs, queues, receipt
-- ARGV  queue, number of the call, life of its receipt in ms, '1' if that life begins anew, then per job: chain, envelope
-- Returns how many were added: none by a repeat.
local stream, jobs, queues, receipt, member = KEYS[1], KEYS[2], KEYS[3], KEYS[4], 's ' .. ARGV[1]
local call, number, life = redis.call, ARGV[2], ARGV[3]
call('HLEN', jobs)
local is_known = call('SISMEMBER', queues, member) == 1
-- One command reads and writes the receipt. To set its life as well costs as much again, so that is done now and then.
local last = call('SET', receipt, number, 'KEEPTTL', 'GET')
if last and (tonumber(last) or tonumber(string.match(last, '^%d+'))) >= tonumber(number) then
  -- A write, so that replicas which confirm it have the jobs as well.
  call('SET', receipt, last, 'PX', life)
  return 0
end
if not last or ARGV[4] == '1' then call('PEXPIRE', receipt, life) end
local index, place = {}, member .. ' '
for i = 5, #ARGV, 2 do
  local entry = redis.pcall('XADD', stream, '*', 'data', ARGV[i + 1])
  if type(entry) == 'table' then
    if last then call('SET', receipt, last, 'KEEPTTL') else call('DEL', receipt) end
    return entry
  end
  index[i - 4] = ARGV[i]
  index[i - 3] = place .. entry
end
call('HSET', jobs, unpack(index))
if not is_known then call('SADD', queues, member) end
return #index / 2
