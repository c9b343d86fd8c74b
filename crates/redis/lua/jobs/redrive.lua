-- Moves dead letters back to their queue, each atomically. An entry that holds another letter
-- stays.
-- KEYS  target, dlq, jobs
-- ARGV  kind ('s' or 'l'), queue, then per letter: entry, job id, letter, tracked ('1' or '0'),
--       envelope
-- Returns how many moved.
local queue = { kind = ARGV[1], name = ARGV[2], target = KEYS[1], jobs = KEYS[3], dlq = KEYS[2] }
local moved = 0
expect_type(queue.target, queue.kind == 's' and 'stream' or 'list')
expect_type(queue.dlq, 'stream')
expect_type(queue.jobs, 'hash')
local function holds(entry, letter)
  local found = redis.call('XRANGE', queue.dlq, entry, entry)[1]
  for i = 1, found and #found[2] or 0, 2 do
    if found[2][i] == 'data' then return found[2][i + 1] == letter end
  end
  return false
end
for i = 3, #ARGV, 5 do
  if holds(ARGV[i], ARGV[i + 2]) then
    redis.call('XDEL', queue.dlq, ARGV[i])
    local chain = chain_of(ARGV[i + 1])
    -- The index may have another job under this id: the run that this letter's message was to
    -- start.
    local indexed = redis.call('HGET', queue.jobs, chain)
    local ours = string.sub(queue.name, 1, 9) ~= 'workflow/'
    if indexed then ours = string.sub(indexed, -#ARGV[i] - 1) == ' ' .. ARGV[i] end
    if ours then redis.call('HDEL', queue.jobs, chain) end
    put_job(queue, chain, ours and ARGV[i + 3] == '1', ARGV[i + 4], 0, 0)
    moved = moved + 1
  end
end
return moved
