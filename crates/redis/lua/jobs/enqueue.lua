-- Adds tracked jobs that stand alone: each once, all of them or none. A repeat of the call adds nothing and gets the
-- answer of the first.
-- KEYS  target, scheduled, jobs, queues, notices, receipt, then the record key of each job
-- ARGV  kind ('s' or 'l'), queue, channel, fresh ('1' if every id was made for this call), number of the call, life of
--       its receipt in ms, then per job: id, due, envelope
--       due: '' now, '+N' in N ms, 'N' at N ms
-- Returns 1 for each job that is new, 0 for each that was there. Or, with nothing written, the id of a chain that
-- is gone while those that waited for it are still to be told: until then its id is not free again.
local q = { kind = ARGV[1], name = ARGV[2], target = KEYS[1], scheduled = KEYS[2], jobs = KEYS[3] }
local last, made = redis.call('GET', KEYS[6]), {}
local number, answer = string.match(last or '0 ', '^(%d+) ?(%d*)')
if tonumber(number) >= tonumber(ARGV[5]) then
  -- A write, so that replicas which confirm it have the jobs as well.
  redis.call('PEXPIRE', KEYS[6], ARGV[6])
  for n = 1, #answer do made[n] = tonumber(string.sub(answer, n, n)) end
  return made
end
if ARGV[4] ~= '1' and redis.call('EXISTS', KEYS[5]) == 1 then
  for i = 7, #ARGV, 3 do
    local chain = chain_of(ARGV[i])
    if redis.call('HEXISTS', KEYS[5], chain) == 1 then return chain end
  end
end
local time = now()
for i = 7, #ARGV, 3 do
  local n = (i - 4) / 3
  local chain, due, envelope = chain_of(ARGV[i]), ARGV[i + 1], ARGV[i + 2]
  if redis.call('HEXISTS', q.jobs, chain) == 1 or redis.call('EXISTS', KEYS[6 + n]) == 1 then
    made[n] = 0
  else
    put(q, chain, true, envelope, due_at(due, time), time)
    made[n] = 1
  end
end
redis.call('SADD', KEYS[4], q.kind .. ' ' .. q.name)
redis.call('SET', KEYS[6], ARGV[5] .. ' ' .. table.concat(made), 'PX', ARGV[6])
announce(q, ARGV[3])
return made
