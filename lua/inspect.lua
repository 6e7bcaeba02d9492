-- Whether an item's keys are what they must be; one that is not sells nothing from this moment on. Rule 40; README.md.
-- KEYS 1 meta  2 stock  3 buyers  4 pending   ARGV 1 item
-- 0 sound: as item.lua   1 there is none, or half of one, or it is being rebuilt   2 broken: the first key that is not right, and 1 if it was paused now
-- Looking and pausing are one step, so that a sound item is never paused for what it was a moment ago.
local call = redis.call
local time = call('TIME')
local function kind(key) return call('TYPE', key).ok end
local function whole(v) return v and v:find('^%d+$') end
local function answer(code, epoch, seq, rest)
  return code .. ' ' .. (whole(epoch) and epoch or 0) .. ' ' .. (whole(seq) and seq or 0) .. ' ' .. time[1] .. ' ' .. time[2]
    .. ' ' .. rest
end

local types = { kind(KEYS[1]), kind(KEYS[2]), kind(KEYS[3]), kind(KEYS[4]) }
if types[1] == 'none' then return answer(1, nil, nil, '') end
if types[1] ~= 'hash' then return answer(2, nil, nil, 'meta 0') end -- nothing can be sold of it
local meta = call('HMGET', KEYS[1], 'epoch', 'seq', 'state', 'starts_ms', 'ends_ms', 'expires_ms', 'total',
  'rebuild')
local stock = types[2] == 'string' and call('GET', KEYS[2])
local broken
for _, i in ipairs({ 1, 2, 7 }) do
  if not whole(meta[i]) then broken = 'meta' end
end
for i = 4, 6 do
  if not (meta[i] and meta[i]:find('^%d%d%d%d%d%d%d%d%d%d%d%d%d$')) then broken = 'meta' end
end
if meta[3] ~= 'OPEN' and meta[3] ~= 'PAUSED' and meta[3] ~= 'CLOSED' then broken = 'meta' end
if not broken and types[2] ~= 'none' and not (stock and stock:find('^%-?%d+$')) then broken = 'stock' end
if not broken and types[3] ~= 'none' and types[3] ~= 'hash' then broken = 'buyers' end
if not broken and types[4] ~= 'none' and types[4] ~= 'zset' then broken = 'pending' end
if not broken then
  if not stock or meta[8] then return answer(1, meta[1], meta[2], '') end
  return answer(0, meta[1], meta[2], table.concat({ meta[3], meta[4], meta[5], meta[6], meta[7], stock,
    call('HLEN', KEYS[3]), call('ZCARD', KEYS[4]), meta[8] and 1 or 0 }, ' '))
end
local seq, paused = meta[2], '0'
if meta[3] ~= 'PAUSED' and meta[3] ~= 'CLOSED' then
  paused = '1'
  if whole(seq) then
    seq = (seq + 1) .. ''
    call('HSET', KEYS[1], 'state', 'PAUSED', 'seq', seq)
  else
    call('HSET', KEYS[1], 'state', 'PAUSED')
  end
  if whole(meta[1]) and whole(seq) then call('PUBLISH', 'sec:news', ARGV[1] .. ' ' .. meta[1] .. ' ' .. seq) end
end
return answer(2, meta[1], seq, broken .. ' ' .. paused)
