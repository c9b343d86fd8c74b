-- For scripts that act on one job at its location; loaded after `chain.lua`. Such scripts begin
-- with
-- KEYS  jobs, waiters, notices, errands, keyed, target, scheduled, blocked, dlq, cancelled, lock,
--       running, dropped, record, waits: those of the location where the job was seen
-- ARGV  one map with channel, job, group, the location's letter (none if only the record is left),
--       its reference (entry or member), and the index value as read (none for an untracked job)

-- Returns the queue, the shard and the location.
local function locate(args)
  local shard = shard_context(args.channel)
  local queue = { id = args.job, chain = chain_of(args.job), group = args.group, target = KEYS[6],
    scheduled = KEYS[7], blocked = KEYS[8], dlq = KEYS[9], cancelled = KEYS[10], lock = KEYS[11],
    running = KEYS[12], dropped = KEYS[13], waits = KEYS[15] }
  local location = { indexed = args.indexed, letter = args.letter, reference = args.reference }
  expect_shard(shard)
  expect_type(queue.cancelled, 'hash')
  if location.letter then expect_location(queue, shard, location.letter) end
  -- An untracked job is there if its entry is.
  function location.is_there()
    return not location.indexed or redis.call('HGET', shard.jobs, queue.chain) == location.indexed
  end
  -- The id of the chain's current job. A stream entry's envelope has it. Elsewhere the job is not
  -- running, or it is the only one of its chain.
  function location.current()
    if location.letter ~= 's' then return queue.id end
    local found = redis.call('XRANGE', queue.target, location.reference, location.reference)[1]
    return found and id_in(found[2][2]) or queue.id
  end
  function location.answer(word, registered)
    local out = with_outbox({ word }, shard)
    out[#out + 1] = ''
    for _, position in ipairs(registered) do out[#out + 1] = position end
    return out
  end
  return queue, shard, location
end
