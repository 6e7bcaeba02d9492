-- The real path, for readiness: a script that writes. README.md.
-- KEYS 1 probe
local time = redis.call('TIME')
redis.call('SET', KEYS[1], time[1], 'PX', '60000')
return '0 0 0 ' .. time[1] .. ' ' .. time[2] .. ' '
