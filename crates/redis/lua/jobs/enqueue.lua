-- Adds tracked jobs: each once, all of them or none.
-- KEYS  target, scheduled, jobs, queues, then the record key of each job
-- ARGV  kind ('s' or 'l'), queue, channel, sooner message, then per job: id, due, envelope
--       due: '' now, '+N' in N ms, 'N' at N ms
-- Returns 1 for each job that is new, 0 for each that was there.
local q = { kind = ARGV[1], name = ARGV[2], target = KEYS[1], scheduled = KEYS[2], jobs = KEYS[3] }
local time, made, sooner = now(), {}, false
for i = 5, #ARGV, 3 do
  local n = (i - 2) / 3
  local id, due, envelope = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if redis.call('HEXISTS', q.jobs, id) == 1 or redis.call('EXISTS', KEYS[4 + n]) == 1 then
    made[n] = 0
  else
    local at = 0
    if string.sub(due, 1, 1) == '+' then at = time + tonumber(string.sub(due, 2)) elseif due ~= '' then at = tonumber(due) end
    if put(q, id, true, envelope, at, time) then sooner = true end
    made[n] = 1
  end
end
redis.call('SADD', KEYS[4], q.kind .. ' ' .. q.name)
if sooner then redis.call('PUBLISH', ARGV[3], ARGV[4]) end
return made
