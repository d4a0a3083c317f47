-- Runs inside redis-server at the end of its run: one SHA-1 over everything that
-- the deterministic part of the load left in the database, walked in sorted
-- order, so that a lost, torn or changed value shows.
local digest = ''
local keys = redis.call('KEYS', '*')
table.sort(keys)
local function add(text)
  digest = redis.sha1hex(digest .. text)
end
for _, key in ipairs(keys) do
  local kind = redis.call('TYPE', key).ok
  add(kind .. ' ' .. key)
  if kind == 'string' then
    add(redis.call('GET', key))
  elseif kind == 'list' then
    add(table.concat(redis.call('LRANGE', key, 0, -1), '\n'))
  elseif kind == 'hash' then
    local fields = redis.call('HKEYS', key)
    table.sort(fields)
    for _, field in ipairs(fields) do
      add(field .. '=' .. redis.call('HGET', key, field))
    end
  elseif kind == 'zset' then
    add(table.concat(redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'), '\n'))
  else
    local members = redis.call('SMEMBERS', key)
    table.sort(members)
    add(table.concat(members, '\n'))
  end
end
return #keys .. ' keys ' .. digest
