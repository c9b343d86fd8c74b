-- Deletes a chain and all its keys if it is still where the index said. Refused while another job
-- waits for it.
-- KEYS  the KEYS of a job location: jobs, waiters, notices, errands, keyed, target, scheduled,
--       blocked, dlq, cancelled, lock, running, dropped, record, waits
-- ARGV  one map: a job location (see `locate`)
-- Returns 'deleted' or 'moved'; then the outbox entries; then, after '', the registrations of a
-- blocked job. Or 'awaited' and the first waiter.
local queue, shard, location = locate(cmsgpack.unpack(ARGV[1]))
if not location.is_there() then return { 'moved' } end
local waiter = first_waiter(shard, queue.chain)
-- Waiters that are about to be notified no longer count: their notice is kept apart from the chain.
if waiter and redis.call('HEXISTS', shard.notices, queue.chain) == 0 then return { 'awaited', waiter } end
local job, registered = queue.chain, {}
if location.letter then
  job = location.current()
  local taken
  taken, registered = remove_job_at(queue, shard, location.letter, location.reference)
  if not taken then return { 'moved' } end
  if taken == 'running' then notify(shard.channel, 'lost ' .. job) end
elseif redis.call('HEXISTS', shard.jobs, queue.chain) == 1 then
  return { 'moved' }
end
redis.call('HDEL', shard.jobs, queue.chain)
redis.call('HDEL', queue.cancelled, queue.chain, location.reference)
redis.call('DEL', KEYS[14])
close_chain(shard, queue.chain, '', 0)
notify(shard.channel, 'finished ' .. queue.chain)
return location.answer('deleted', registered)
