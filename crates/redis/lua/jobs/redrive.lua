-- Moves dead letters back to their queue, each atomically. An entry that holds another letter
-- stays.
-- KEYS  target, dlq, jobs
-- ARGV  one map: kind ('s' or 'l'), queue, letters: entry, job, letter, tracked and envelope of each
-- Returns how many moved.
local args, moved = cmsgpack.unpack(ARGV[1]), 0
local queue = { kind = args.kind, name = args.queue, target = KEYS[1], jobs = KEYS[3], dlq = KEYS[2] }
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
for _, dead in ipairs(args.letters) do
  if holds(dead.entry, dead.letter) then
    redis.call('XDEL', queue.dlq, dead.entry)
    local chain = chain_of(dead.job)
    -- The index may have another job under this id: the run that this letter's message was to
    -- start.
    local indexed = redis.call('HGET', queue.jobs, chain)
    local ours = string.sub(queue.name, 1, 9) ~= 'workflow/'
    if indexed then ours = string.sub(indexed, -#dead.entry - 1) == ' ' .. dead.entry end
    if ours then redis.call('HDEL', queue.jobs, chain) end
    put_job(queue, chain, ours and dead.tracked, dead.envelope, 0, 0)
    moved = moved + 1
  end
end
return moved
