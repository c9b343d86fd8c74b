-- Adds tracked jobs without links: each once, all or none. A repeat of the call adds nothing and
-- gets the first reply.
-- KEYS  target, scheduled, jobs, queues, notices, receipt, then the record key of each job
-- ARGV  kind ('s' or 'l'), queue, channel, fresh ('1' if every id was made for this call), number
--       of the call, TTL of its receipt in ms, then per job: id, due, envelope due: '' now, '+N' in
--       N ms, 'N' at N ms
-- Returns 1 for each new job, 0 for each that existed. Or, with nothing written, the id of a closed
-- chain whose waiters are not yet notified: until then its id cannot be reused.
local queue = { kind = ARGV[1], name = ARGV[2], target = KEYS[1], scheduled = KEYS[2], jobs = KEYS[3] }
local last, made = redis.call('GET', KEYS[6]), {}
local number, answer = string.match(last or '', '^(%d+) ?(%d*)')
if number and tonumber(number) >= tonumber(ARGV[5]) then
  -- A write, so that the replicas that confirm it have the jobs as well.
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
-- Checks what could fail after the first write. If all jobs go to one key, adding the first one
-- checks it.
local time, member = now(), queue.kind .. ' ' .. queue.name
local is_known, later = redis.call('SISMEMBER', KEYS[4], member) == 1, 0
for i = 8, #ARGV, 3 do
  if ARGV[i] ~= '' then later = later + 1 end
end
if later > 0 then expect_queue(queue) end
for i = 7, #ARGV, 3 do
  local n = (i - 4) / 3
  local chain, due, envelope = chain_of(ARGV[i]), ARGV[i + 1], ARGV[i + 2]
  if redis.call('HEXISTS', queue.jobs, chain) == 1 or redis.call('EXISTS', KEYS[6 + n]) == 1 then
    made[n] = 0
  else
    put_job(queue, chain, true, envelope, due_at(due, time), time)
    made[n] = 1
  end
end
if not is_known then redis.call('SADD', KEYS[4], member) end
redis.call('SET', KEYS[6], ARGV[5] .. ' ' .. table.concat(made), 'PX', ARGV[6])
announce_earlier(queue, ARGV[3])
return made
