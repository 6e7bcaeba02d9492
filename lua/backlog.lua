-- How much of an item's events waits and is in hand, and how old the oldest is. Rule 26; README.md.
-- KEYS 1 events   ARGV 1 group
-- "0 waiting in_hand oldest_ms now_ms" (oldest_ms: 0 when nothing waits and no first delivery is pending)
-- "1" no such stream
local call = redis.call
local time = call('TIME')
local now = time[1] .. ('00000' .. time[2]):sub(-6, -4)
if call('EXISTS', KEYS[1]) == 0 then return '1' end

local last, lag, pending, group = '0-0', nil, 0, nil
for _, fields in ipairs(call('XINFO', 'GROUPS', KEYS[1])) do
  local g = {}
  for i = 1, #fields, 2 do g[fields[i]] = fields[i + 1] end
  if g.name == ARGV[1] then
    last, lag, pending, group = g['last-delivered-id'], g.lag, g.pending, true
  end
end
local function ms(id) return tonumber(id:match('^%d+')) end

local first = call('XRANGE', KEYS[1], '(' .. last, '+', 'COUNT', 1)[1]
local oldest = first and ms(first[1])
if not group then
  lag = call('XLEN', KEYS[1]) -- the group will be made at 0: all of it waits
elseif not lag then
  -- Redis does not know (after XDEL, SETID): count, in steps, up to a bound that is backlog enough.
  lag = 0
  local from = '(' .. last
  repeat
    local step = call('XRANGE', KEYS[1], from, '+', 'COUNT', 500)
    lag = lag + #step
    if step[1] then from = '(' .. step[#step][1] end
  until #step < 500 or lag >= 20000
end
if not first then lag = 0 end
if first and lag == 0 then lag = 1 end

-- First deliveries only: what is delivered again and again must not hold the age (rule 26).
local from = '-'
for _ = 1, pending > 0 and 20 or 0 do
  local step = call('XPENDING', KEYS[1], ARGV[1], from, '+', 100)
  for _, e in ipairs(step) do
    if e[4] == 1 then
      local at = ms(e[1])
      if not oldest or at < oldest then oldest = at end
      step = {}
      break
    end
  end
  if #step < 100 then break end
  from = '(' .. step[#step][1]
end
return '0 ' .. lag .. ' ' .. pending .. ' ' .. string.format('%.0f', oldest or 0) .. ' ' .. now
