-- Carries out effects of a run that are pending, in order: a bounded number and so many bytes, or one however large. Behind
-- the last the run gets its task.
-- KEYS  jobs, waiters, notices, errands, keyed
-- ARGV  channel, the ARGV of a world, then: run, limit, bytes
-- Returns 1 if there are more, else 0; then the errands that are owed.
local w = world(home(), 2)
local id, limit, bytes = w.read(), tonumber(w.read()), tonumber(w.read())
local effects, done = {}, 0
expect_pending(w, id)
local r = load(w, id)
if r == false then return { 0 } end
if not r or not r.state.pending then
  redis.call('UNLINK', run_of(id).pending)
  redis.call('ZREM', w.h.errands, 'e ' .. id)
  return { 0 }
end

-- Each was staged as the ARGV of one effect.
local function read_staged(packed)
  local sound, args = pcall(cmsgpack.unpack, packed)
  if not sound or type(args) ~= 'table' or not READ[args[1]] then
    error('WRONGTYPE ' .. r.pending .. ' holds what is no effect instead of effects')
  end
  local at = 0
  function w.read()
    at = at + 1
    return args[at]
  end
  effects[#effects + 1] = READ[w.read()](w)
  return #packed
end

collect(limit, bytes, function(seen, step) return redis.call('LRANGE', r.pending, seen, seen + step - 1) end, read_staged)
change(w, r)
for _, effect in ipairs(effects) do
  if effect.act(r) == 'more' then break end
  done = done + 1
end
redis.call('LTRIM', r.pending, done, -1)
local more = redis.call('EXISTS', r.pending)
if more == 1 then
  -- Others take an errand over that nobody has carried on for a while.
  redis.call('ZADD', w.h.errands, 'XX', whole(w.time + GRACE), 'e ' .. id)
else
  redis.call('ZREM', w.h.errands, 'e ' .. id)
  r.state.pending, r.state.dropping, r.wants_task = nil, nil, true
end
finish(w)
return with_owed({ more }, w.h)
