-- Behind the chain prelude of scripts that act on one job, wherever it is. They are given as their first
-- KEYS  jobs, waiters, notices, errands, keyed, target, scheduled, blocked, dlq, cancelled, lock, running, dropped,
--       record, waits: those of the place where the job was seen
-- ARGV  channel, job id, the index value as it was read ('' for an untracked job), place (first letter of that value),
--       reference (entry or member), group

-- The queue, the shard's home, and the place.
local function place()
  local h = home()
  local q = { id = ARGV[2], chain = chain_of(ARGV[2]), group = ARGV[6], target = KEYS[6], scheduled = KEYS[7],
    blocked = KEYS[8], dlq = KEYS[9], cancelled = KEYS[10], lock = KEYS[11], running = KEYS[12], dropped = KEYS[13],
    waits = KEYS[15] }
  local p = { indexed = ARGV[3], letter = ARGV[4], reference = ARGV[5] }
  expect_home(h)
  expect(q.cancelled, 'hash')
  if p.letter ~= '' then expect_place(q, h, p.letter) end
  -- An untracked job is there if its entry is.
  function p.is_there()
    return p.indexed == '' or redis.call('HGET', h.jobs, q.chain) == p.indexed
  end
  -- The id of the chain's current job. An entry's envelope has it; elsewhere nobody is running the job, or it is
  -- the only one of its chain.
  function p.current()
    if p.letter ~= 's' then return q.id end
    local found = redis.call('XRANGE', q.target, p.reference, p.reference)[1]
    return found and id_in(found[2][2]) or q.id
  end
  function p.answer(word, registered)
    local out = with_owed({ word }, h)
    out[#out + 1] = ''
    for _, position in ipairs(registered) do out[#out + 1] = position end
    return out
  end
  return q, h, p
end
