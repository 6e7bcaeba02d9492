-- Housekeeping of an item's events: trims what every group has delivered and acked, and removes consumers of dead lives,
-- which have nothing pending. In one step, since a consumer that is deleted takes its pending messages with it.
-- Section 6; README.md.
-- KEYS 1 events   ARGV 1 group  2 own consumer ('' none)  3 ms without a sign of life  4 1: remove the own one (clean end)
-- "trimmed removed"
local call = redis.call
if call('EXISTS', KEYS[1]) == 0 then return '0 0' end
local function fields(list)
  local t = {}
  for i = 1, #list, 2 do t[list[i]] = list[i + 1] end
  return t
end
local function less(a, b)
  local a_ms, a_n = a:match('^(%d+)-(%d+)$')
  local b_ms, b_n = b:match('^(%d+)-(%d+)$')
  a_ms, a_n, b_ms, b_n = tonumber(a_ms), tonumber(a_n), tonumber(b_ms), tonumber(b_n)
  return a_ms < b_ms or a_ms == b_ms and a_n < b_n
end

-- Below the oldest pending of any group, and below the last delivered of each.
local keep, mine
for _, list in ipairs(call('XINFO', 'GROUPS', KEYS[1])) do
  local g = fields(list)
  local from = g['last-delivered-id']
  if g.pending > 0 then
    local oldest = call('XPENDING', KEYS[1], g.name)[2]
    if oldest and less(oldest, from) then from = oldest end
  end
  if not keep or less(from, keep) then keep = from end
  mine = mine or g.name == ARGV[1]
end
local trimmed, removed = 0, 0
if keep then trimmed = call('XTRIM', KEYS[1], 'MINID', '~', keep) end
if mine then
  for _, list in ipairs(call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
    local c = fields(list)
    local own = c.name == ARGV[2]
    local dead = own and ARGV[4] == '1' or not own and c.idle > tonumber(ARGV[3])
    if dead and c.pending == 0 then
      call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], c.name)
      removed = removed + 1
    end
  end
end
return trimmed .. ' ' .. removed
