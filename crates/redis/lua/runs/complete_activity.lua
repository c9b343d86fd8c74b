-- Completes a job from outside that is still where the index said, whatever its lease, and delivers
-- an event to a run. Writes nothing if the job has moved or the run is damaged.
-- KEYS  the KEYS of a job location
-- ARGV  one map: a job location (see `locate`), context, delivery
-- Returns 'completed', 'moved' or 'damaged'; then the outbox entries; then, after '', the
-- registrations of a blocked job.
local args = cmsgpack.unpack(ARGV[1])
local queue, shard, location = locate(args)
local ctx, delivery = run_context(shard, args.context), args.delivery
local run = load_run(ctx, delivery.run)
if not location.is_there() then return { 'moved' } end

-- Whether the journal accepts another entry. Appending one would show it, but the job would be
-- gone.
local function is_sound(run)
  local about = redis.pcall('XINFO', 'STREAM', run.events)
  if about.err then return string.find(about.err, 'no such key', 1, true) ~= nil end
  for i = 1, #about, 2 do
    if about[i] == 'last-generated-id' then
      return tonumber(string.match(about[i + 1], '^%d+')) <= run.state.length
    end
  end
end

if run == false or run and is_running(run) and not is_sound(run) then return { 'damaged' } end
local job = location.current()
local taken, registered = remove_job_at(queue, shard, location.letter, location.reference)
if not taken then return { 'moved' } end
forget_job(ctx, queue, queue.chain)
deliver(ctx, delivery)
save_runs(ctx)
if taken == 'running' then notify(shard.channel, 'lost ' .. job) end
return location.answer('completed', registered)
