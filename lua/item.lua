-- An item's state. README.md.
-- KEYS 1 meta  2 stock  3 buyers  4 pending
-- 0: state starts_ms ends_ms expires_ms total free buyers pending rebuilding (1 or 0)   1 there is none
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq', 'state', 'starts_ms', 'ends_ms', 'expires_ms', 'total',
  'rebuild')
local stock = call('GET', KEYS[2])
local head = ' ' .. (meta[1] or 0) .. ' ' .. (meta[2] or 0) .. ' ' .. time[1] .. ' ' .. time[2] .. ' '
if not (meta[1] and stock) then return 1 .. head end
return 0 .. head .. table.concat({ meta[3], meta[4], meta[5], meta[6], meta[7], stock, call('HLEN', KEYS[3]),
  call('ZCARD', KEYS[4]), meta[8] and 1 or 0 }, ' ')
