-- Where a published event is. Rule 28; README.md.
-- KEYS 1 events   ARGV 1 group  2 stream id
-- 0 waiting: beyond the last delivered   1 in hand: in the pending list   2 passed: acked, or not there (any more)
local call = redis.call
if call('EXISTS', KEYS[1]) == 0 then return 2 end
local known
for _, fields in ipairs(call('XINFO', 'GROUPS', KEYS[1])) do
  known = known or fields[2] == ARGV[1]
end
if known and call('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1)[1] then return 1 end
if not call('XRANGE', KEYS[1], ARGV[2], ARGV[2])[1] then return 2 end
if not known then return 0 end -- the group will be made at 0
for _, fields in ipairs(call('XINFO', 'GROUPS', KEYS[1])) do
  local g = {}
  for i = 1, #fields, 2 do g[fields[i]] = fields[i + 1] end
  if g.name == ARGV[1] then
    local ms, n = ARGV[2]:match('^(%d+)-(%d+)$')
    local last_ms, last_n = g['last-delivered-id']:match('^(%d+)-(%d+)$')
    ms, n, last_ms, last_n = tonumber(ms), tonumber(n), tonumber(last_ms), tonumber(last_n)
    if ms > last_ms or ms == last_ms and n > last_n then return 0 end
  end
end
return 2
