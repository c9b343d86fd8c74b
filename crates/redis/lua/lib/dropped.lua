-- Cancelled jobs of lists. Removing one from the middle of a list costs a walk, so its copy is
-- dropped when it is popped. The hash `dropped` has for each chain 'COUNT' or 'COUNT SHA1': how
-- many copies to drop, and the hash of the copy that replaced them. Another program may have popped
-- some of them. Once the replacing copy is popped, no older copy is left.

-- Adds one copy to drop. A value that is no number counts as none.
local function drop_copy(dropped, chain)
  local count = string.match(redis.call('HGET', dropped, chain) or '', '^%d+') or 0
  redis.call('HSET', dropped, chain, int_text(count + 1))
end

-- Whether to drop a popped copy; counts it if so. A value that is no number counts as one.
local function is_dropped(dropped, chain, envelope)
  local value = redis.call('HGET', dropped, chain)
  if not value then return false end
  local count, replaced_by = tonumber(string.match(value, '^%d+')) or 1, string.match(value, ' (%x+)$')
  local drops = count > 0 and not (replaced_by and replaced_by == redis.sha1hex(envelope))
  if drops and count > 1 then
    redis.call('HSET', dropped, chain, int_text(count - 1) .. (replaced_by and ' ' .. replaced_by or ''))
  else
    redis.call('HDEL', dropped, chain)
  end
  return drops
end
