-- Brings n reservations of one item to their verdicts, each once. Rules 2, 3, 4, 5, 7; README.md.
-- KEYS 1 meta  2 stock  3 buyers  4 pending  5… n reservations, then the records of other orders
-- ARGV 1 item, then 2 a row: reservation_id  verdict. The verdict of a reservation that became its own order is
--      "SUCCEEDED"; any other is "state reason rank give_back" (reason '-': none; give_back 1 or 0), and where another
--      order stands instead " other_reservation_id other_order_id other_request_id place" (place in KEYS of the other's
--      record; 0: its record is this one)
-- 0: a digit per row: 0 settled  1 ignored  2 later: a rebuild is under way  3 its record cannot be read: left alone, the
--    others are settled
-- Nearly every row is "SUCCEEDED": it costs one read, one write and two arguments, and no table but the read's.
local call = redis.call
local time = call('TIME')
local meta = call('HMGET', KEYS[1], 'epoch', 'seq', 'rebuild')
local n = (#ARGV - 1) / 2
if meta[3] then -- rule 2: what is not there may be about to come back
  return '0 ' .. meta[1] .. ' ' .. meta[2] .. ' ' .. time[1] .. ' ' .. time[2] .. ' ' .. ('2'):rep(n)
end
local RANK = { QUEUED = 1, PROCESSING = 2, SUCCEEDED = 3, SOLD_OUT = 3, REJECTED = 3, FAILED = 3, CANCELLED = 4 }
local OWN = 'SUCCEEDED'
local member_at = #KEYS[1] + 9 -- "…:meta" against "…:reservation:<member>"

-- Read everything first: types are checked by it, and one row may depend on what an earlier row of this call changed.
local stock = call('GET', KEYS[2])
if stock and stock:find('[^%d-]') then return redis.error_reply('ERR stock is not a whole number') end
call('ZCARD', KEYS[4])
local records = {} -- by key: reservation_id, epoch, status, state
local function record(key)
  local r = records[key]
  if not r then
    r = redis.pcall('HMGET', key, 'reservation_id', 'epoch', 'status', 'state') -- of another type: r.err
    records[key] = r
  end
  return r
end
local rows, users, buyers = {}, {}, {}
for i = 1, n do
  local key, verdict = KEYS[4 + i], ARGV[2 * i + 1]
  record(key)
  if verdict ~= OWN then
    local v = {}
    for word in verdict:gmatch('%S+') do v[#v + 1] = word end
    local place = tonumber(v[8] or 0)
    if place > 0 then record(KEYS[place]) end
    rows[i] = { state = v[1], reason = v[2], rank = tonumber(v[3]), gives = v[4] == '1', other = v[5], order = v[6],
      request = v[7], place = place, user = key:match('^%d+', member_at) }
    users[#users + 1] = rows[i].user
  end
end
if users[1] then
  local held = call('HMGET', KEYS[3], unpack(users))
  for i, user in ipairs(users) do buyers[user] = held[i] end
end

-- Decide each row on the state that the rows before it left, and write it. Nothing from here on can fail.
local result, done, touched = {}, {}, {}
local returned, moved = 0, false

-- Rule 5: the buyers entry is ours to change only while it names this reservation.
local function names(row, id)
  local entry = buyers[row.user]
  return entry and entry:sub(1, #id) == id
end

-- What is not simply a reservation's own order. The record's new status.
local function other_end(r, id, row)
  local was_held = r[3] ~= 'RELEASED'
  local ordered = was_held and row.state == OWN
  local gives = row.gives and was_held
  if names(row, id) and (not ordered or row.other) then
    local keep = row.other and (ordered or row.reason == 'ONE_USER_ONE_ORDER')
    if keep then
      local o = row.place > 0 and record(KEYS[row.place]) or {}
      local known = o[1] == row.other
      keep = not (known and o[3] == 'RELEASED')
      -- An entry is a unit. The order that Redis knows nothing of (it lost it, or never had it) took none here: it gets
      -- this one's with the entry.
      if keep and not (known and o[2] == meta[1]) then gives = false end
    end
    buyers[row.user] = keep and row.other .. ' ' .. row.order .. ' ' .. row.request
    touched[row.user], moved = true, true
  end
  if gives then returned = returned + 1 end
  return ordered and 'ORDERED' or 'RELEASED'
end

for i = 1, n do
  local key, id, row = KEYS[4 + i], ARGV[2 * i], rows[i]
  local r = records[key]
  local rank, has = row and row.rank or 3, RANK[r[4] or 'QUEUED'] or 4
  if r.err then
    result[i] = '3'
  elseif r[1] ~= id or rank < 3 then
    result[i] = '1'
    if rank >= 3 and not (r[1] or r[2] or r[3]) then -- rule 2
      done[#done + 1] = key:sub(member_at)
      -- … but that it may have got an entry, and with it a unit, as above: that ends.
      if row and row.state ~= OWN and meta[1] and stock and names(row, id)
          and buyers[row.user]:match('%S+$') == key:match('[^:]+$') then
        other_end({}, id, row)
        result[i] = '0'
      end
    end
  elseif not meta[1] or not stock then
    result[i] = '2' -- lost, all but this record
  elseif rank < has or rank == has and not (row and row.reason == 'LOST_ORDER' and r[4] == OWN) then
    result[i] = '1' -- rule 3
    if r[3] == 'ORDERED' or r[3] == 'RELEASED' then done[#done + 1] = key:sub(member_at) end
  else
    result[i] = '0'
    done[#done + 1] = key:sub(member_at)
    -- Rule 36: a rebuild did not find that it holds a unit: it is told its end, and nothing of the stock is its own.
    if r[2] ~= meta[1] then r[3] = 'RELEASED' end
    if not row then
      r[3] = r[3] == 'RELEASED' and 'RELEASED' or 'ORDERED'
      r[4] = OWN
      call('HSET', key, 'status', r[3], 'state', OWN, 'rank', '3')
    else
      r[3], r[4] = other_end(r, id, row), row.state
      call('HSET', key, 'status', r[3], 'state', row.state, 'rank', row.rank)
      if row.reason ~= '-' then call('HSET', key, 'reason', row.reason) end
      if row.other then
        r[1] = row.other
        call('HSET', key, 'reservation_id', row.other, 'order_id', row.order)
      end
    end
  end
end
if done[1] then call('ZREM', KEYS[4], unpack(done)) end
local set, gone = {}, {}
for user in pairs(touched) do
  if buyers[user] then
    set[#set + 1] = user
    set[#set + 1] = buyers[user]
  else
    gone[#gone + 1] = user
  end
end
if set[1] then call('HSET', KEYS[3], unpack(set)) end -- before HDEL: an emptied hash would lose its expiry
if gone[1] then call('HDEL', KEYS[3], unpack(gone)) end
if returned > 0 then call('INCRBY', KEYS[2], returned) end
local epoch, seq = meta[1] or '0', meta[2] or '0'
if moved or returned > 0 then -- rule 7
  seq = (seq + 1) .. ''
  call('HSET', KEYS[1], 'seq', seq)
  call('PUBLISH', 'sec:news', ARGV[1] .. ' ' .. epoch .. ' ' .. seq)
end
return '0 ' .. epoch .. ' ' .. seq .. ' ' .. time[1] .. ' ' .. time[2] .. ' ' .. table.concat(result)
