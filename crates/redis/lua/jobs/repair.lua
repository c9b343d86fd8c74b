-- Forgets jobs that another program has taken away: the index has them where they are not any more, or where they were
-- acknowledged and not deleted, or says nothing that can be read. Their ids are free again. Those that wait for them are told
-- that they were removed, and a run whose task is lost gets another. Looks at a bounded number.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a world, what a run is told of an activity that was taken away: what stands before and after the
--       number; then where to look: 'chains' and chains; 'index', a cursor and how many; 'stream', a queue, the entry to
--       begin behind and how many
-- Returns how many were forgotten or deleted, where to go on ('' if that was all), then the errands that are owed.
local w = world(home(), 2)
local says, where_to_look, lost, noted, go_on = { w.read(), w.read() }, w.read(), {}, {}, ''

-- How far the stream of a queue has been read, asked once.
local function read_up_to(q)
  if not q.reading then q.reading = reading(q.target, q.target .. ':paused', q.group) end
  return q.reading
end

-- Whether an entry has been read and nobody holds it. Other groups of the stream have a say, too: a program with another
-- one may be at work on it.
local function is_done(q, entry)
  local r = read_up_to(q)
  if is_later(entry, r.at) or lease(q.target, q.group, entry) then return false end
  for name, at in pairs(r.others) do
    if at == PAUSED_AT or is_later(entry, at) or lease(q.target, name, entry) then return false end
  end
  return true
end

-- Whether a job is where the index has it. One of a list may have been taken in this moment: see `suspects`.
local function is_there(q, letter, reference)
  if letter == 'l' then return true end
  if letter == 'S' or letter == 'L' then
    return redis.call('ZSCORE', q.scheduled, reference) or redis.call('ZSCORE', q.target .. ':purged', reference)
  end
  if letter == 'b' then return redis.call('ZSCORE', q.blocked, reference) end
  if letter == 'd' or letter == 'D' then return redis.call('XRANGE', q.dlq, reference, reference)[1] end
  return redis.call('XRANGE', q.target, reference, reference)[1] and not is_done(q, reference)
end

-- Notes a job that is lost.
local function note(job)
  if job.chain then
    if noted[job.chain] then return end
    noted[job.chain] = true
    local run, part = part_of(job.chain)
    job.told = removal(w, job.chain, says)
    job.run = part == 'task' and load(w, run) or nil
  end
  lost[#lost + 1] = job
end

-- Notes a job if it is lost. All that could fail is done here, before the first write.
local function look(chain, indexed)
  local letter, name, reference = string.match(indexed, '^([sSldDLb]) ([^ ]+) ?(.*)$')
  local job = { chain = chain, indexed = indexed }
  if letter then
    local q = queue(w, (letter == 'l' or letter == 'L' or letter == 'D') and 'l' or 's', name)
    expect(q.cancelled, 'hash')
    if is_there(q, letter, reference) then return end
    job.q, job.entry = q, letter == 's' and reference or nil
  end
  note(job)
end

-- An entry that is done, with its job if the index has that for it.
local function entry_of(q, entry)
  local id, indexed = id_in(field(entry, 'data') or ''), 's ' .. q.name .. ' ' .. entry[1]
  local chain = id and chain_of(id)
  if chain and redis.call('HGET', w.h.jobs, chain) ~= indexed then chain = nil end
  return { q = q, entry = entry[1], chain = chain, indexed = indexed }
end

-- A damaged key must not keep the others from being looked at; its own jobs stay as they are.
local function look_safely(chain, indexed) pcall(look, chain, indexed) end

if where_to_look == 'chains' then
  while w.has_more() do
    local chain = w.read()
    local indexed = redis.call('HGET', w.h.jobs, chain)
    if indexed then look(chain, indexed) end
  end
elseif where_to_look == 'index' then
  local page = redis.call('HSCAN', w.h.jobs, w.read(), 'COUNT', w.read())
  for i = 1, #page[2], 2 do look_safely(page[2][i], page[2][i + 1]) end
  if page[1] ~= '0' then go_on = page[1] end
else
  local q, from, most, seen, bytes, page = queue(w, 's', w.read()), w.read(), tonumber(w.read()), 0, 0, nil
  expect(q.cancelled, 'hash')
  repeat
    page = redis.call('XRANGE', q.target, from == '' and '-' or '(' .. from, read_up_to(q).at, 'COUNT', STEP)
    for _, entry in ipairs(page) do
      from, seen, bytes = entry[1], seen + 1, bytes + #(entry[2][2] or '')
      if is_done(q, entry[1]) then note(entry_of(q, entry)) end
    end
  until #page < STEP or seen >= most or bytes > 1048576
  if #page == STEP then go_on = from end
end
for _, job in ipairs(lost) do
  if job.entry then redis.call('XDEL', job.q.target, job.entry) end
  if job.q and job.chain then
    forget(w, job.q, job.chain, job.indexed)
  elseif job.chain then
    redis.call('HDEL', w.h.jobs, job.chain)
    if w.tied then close(w.h, job.chain, '', 0) end
  end
  if job.chain then w.h.ended[#w.h.ended + 1] = 'finished ' .. job.chain end
  if job.told then deliver(w, job.told) end
  if job.run then
    job.run.wants_task = true
    change(w, job.run)
  end
end
finish(w)
publish_ends(w.h)
return with_owed({ #lost, go_on }, w.h)
