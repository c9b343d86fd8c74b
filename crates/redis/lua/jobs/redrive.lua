-- Moves letters out of the dead letters, each atomically.
-- KEYS  target, dlq, jobs
-- ARGV  kind ('s' or 'l'), queue, then per letter: entry, job id, tracked ('1' or '0'), envelope
-- Returns how many moved.
local q = { kind = ARGV[1], name = ARGV[2], target = KEYS[1], jobs = KEYS[3], dlq = KEYS[2] }
local moved = 0
expect(q.target, q.kind == 's' and 'stream' or 'list')
expect(q.dlq, 'stream')
expect(q.jobs, 'hash')
for i = 3, #ARGV, 4 do
  if redis.call('XDEL', KEYS[2], ARGV[i]) == 1 then
    local chain = chain_of(ARGV[i + 1])
    -- What the index has under this id may be another job: the run that this letter's message was to start.
    local indexed = redis.call('HGET', q.jobs, chain)
    local ours = string.sub(q.name, 1, 9) ~= 'workflow/'
    if indexed then ours = string.sub(indexed, -#ARGV[i] - 1) == ' ' .. ARGV[i] end
    if ours then redis.call('HDEL', q.jobs, chain) end
    put(q, chain, ours and ARGV[i + 2] == '1', ARGV[i + 3], 0, 0)
    moved = moved + 1
  end
end
return moved
