-- Deletes a chain that is where the index said with everything in it, or tells that it has moved. Refused while
-- another job waits for it.
-- KEYS  the KEYS of a place: jobs, waiters, notices, errands, keyed, target, scheduled, blocked, dlq, cancelled, lock,
--       running, dropped, record, waits
-- ARGV  the ARGV of a place: channel, chain id, the index value as it was read ('' for an untracked job), place (first
--       letter of that value; '' if only the record is left), reference (entry or member), group
-- Returns 'deleted' or 'moved'; then the errands that are owed; then, behind '', what a blocked job was registered
-- with. Or 'awaited' and who waits.
local q, h, p = place()
if not p.is_there() then return { 'moved' } end
local waiter = awaited(h, q.chain)
-- Those who are to be told of its end do not wait for the chain any more: what they are told is kept apart.
if waiter and redis.call('HEXISTS', h.notices, q.chain) == 0 then return { 'awaited', waiter } end
local job, registered = q.chain, {}
if p.letter ~= '' then
  job = p.current()
  local taken
  taken, registered = take(q, h, p.letter, p.reference)
  if not taken then return { 'moved' } end
  if taken == 'running' then notify(h.channel, 'lost ' .. job) end
elseif redis.call('HEXISTS', h.jobs, q.chain) == 1 then
  return { 'moved' }
end
redis.call('HDEL', h.jobs, q.chain)
redis.call('HDEL', q.cancelled, q.chain, p.reference)
redis.call('DEL', KEYS[14])
close(h, q.chain, '', 0)
notify(h.channel, 'finished ' .. q.chain)
return p.answer('deleted', registered)
