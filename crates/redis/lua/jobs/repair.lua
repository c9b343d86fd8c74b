-- Forgets jobs that another program has removed: the index has them where they no longer are, or
-- where they were acknowledged and not deleted, or its value is invalid. Their ids can be reused,
-- their waiters are notified of a removal, and a run whose task is lost gets another. Checks a
-- bounded number.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  one map: channel, context, removed_event (for a removed activity: the JSON before and after
--       the number), and what to check: chains; or cursor and page_size of the index; or a queue,
--       after (the entry to start after, if any) and page_size
-- Returns how many were forgotten or deleted, where to continue ('' if done), then the outbox
-- entries.
local args = cmsgpack.unpack(ARGV[1])
local ctx = run_context(shard_context(args.channel), args.context)
local lost, noted, next_position = {}, {}, ''

-- How far the stream of a queue has been read; asked once.
local function read_up_to(queue)
  if not queue.reading then
    queue.reading = stream_position(queue.target, queue.target .. ':paused', queue.group)
  end
  return queue.reading
end

-- Whether an entry has been read and nobody holds it. Other groups of the stream count as well:
-- another program may be working on it.
local function is_done(queue, entry)
  local position = read_up_to(queue)
  if is_later(entry, position.at) or pending_entry(queue.target, queue.group, entry) then return false end
  for name, at in pairs(position.others) do
    if at == PAUSED_POSITION or is_later(entry, at) or pending_entry(queue.target, name, entry) then
      return false
    end
  end
  return true
end

-- Whether a job is where the index has it. A list job may be about to be taken: see `orphans`.
local function is_there(queue, letter, reference)
  if letter == 'l' then return true end
  if letter == 'S' or letter == 'L' then
    return redis.call('ZSCORE', queue.scheduled, reference) or redis.call('ZSCORE', queue.target .. ':purged',
      reference)
  end
  if letter == 'b' then return redis.call('ZSCORE', queue.blocked, reference) end
  if letter == 'd' or letter == 'D' then return redis.call('XRANGE', queue.dlq, reference, reference)[1] end
  return redis.call('XRANGE', queue.target, reference, reference)[1] and not is_done(queue, reference)
end

-- Records a lost job.
local function add_lost(job)
  if job.chain then
    if noted[job.chain] then return end
    noted[job.chain] = true
    local run, part = run_part(job.chain)
    job.told = removal_event(ctx, job.chain, args.removed_event)
    job.run = part == 'task' and load_run(ctx, run) or nil
  end
  lost[#lost + 1] = job
end

-- Records a job if it is lost. All that could fail happens here, before the first write.
local function check_job(chain, indexed)
  local letter, name, reference = string.match(indexed, '^([sSldDLb]) ([^ ]+) ?(.*)$')
  local job = { chain = chain, indexed = indexed }
  if letter then
    local queue = queue_keys(ctx, (letter == 'l' or letter == 'L' or letter == 'D') and 'l' or 's', name)
    expect_type(queue.cancelled, 'hash')
    if is_there(queue, letter, reference) then return end
    job.queue, job.entry = queue, letter == 's' and reference or nil
  end
  add_lost(job)
end

-- Returns a finished entry, with its job if the index has the entry for it.
local function entry_of(queue, entry)
  local id, indexed = id_in(field(entry, 'data') or ''), 's ' .. queue.name .. ' ' .. entry[1]
  local chain = id and chain_of(id)
  if chain and redis.call('HGET', ctx.shard.jobs, chain) ~= indexed then chain = nil end
  return { queue = queue, entry = entry[1], chain = chain, indexed = indexed }
end

-- A damaged key must not prevent the check of others; its own jobs stay as they are.
local function check_safely(chain, indexed) pcall(check_job, chain, indexed) end

if args.chains then
  for _, chain in ipairs(args.chains) do
    local indexed = redis.call('HGET', ctx.shard.jobs, chain)
    if indexed then check_job(chain, indexed) end
  end
elseif args.cursor then
  local page = redis.call('HSCAN', ctx.shard.jobs, args.cursor, 'COUNT', args.page_size)
  for i = 1, #page[2], 2 do check_safely(page[2][i], page[2][i + 1]) end
  if page[1] ~= '0' then next_position = page[1] end
else
  local queue, from, seen, bytes, page = queue_keys(ctx, 's', args.queue), args.after, 0, 0, nil
  expect_type(queue.cancelled, 'hash')
  repeat
    page = redis.call('XRANGE', queue.target, from and '(' .. from or '-', read_up_to(queue).at,
      'COUNT', ENTRIES_PER_READ)
    for _, entry in ipairs(page) do
      from, seen, bytes = entry[1], seen + 1, bytes + #(entry[2][2] or '')
      if is_done(queue, entry[1]) then add_lost(entry_of(queue, entry)) end
    end
  until #page < ENTRIES_PER_READ or seen >= args.page_size or bytes > 1048576
  if #page == ENTRIES_PER_READ then next_position = from end
end
for _, job in ipairs(lost) do
  if job.entry then redis.call('XDEL', job.queue.target, job.entry) end
  if job.queue and job.chain then
    forget_job(ctx, job.queue, job.chain, job.indexed)
  elseif job.chain then
    redis.call('HDEL', ctx.shard.jobs, job.chain)
    if ctx.tied then close_chain(ctx.shard, job.chain, '', 0) end
  end
  if job.chain then ctx.shard.ended[#ctx.shard.ended + 1] = 'finished ' .. job.chain end
  if job.told then deliver(ctx, job.told) end
  if job.run then
    job.run.wants_task = true
    mark_changed(ctx, job.run)
  end
end
save_runs(ctx)
publish_ended(ctx.shard)
return with_outbox({ #lost, next_position }, ctx.shard)
