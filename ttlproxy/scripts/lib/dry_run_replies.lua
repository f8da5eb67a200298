-- What a script gets as the reply to a write in its dry run, if it needs another one than a number.
-- GIVES: replies
local replies = {
  HINCRBYFLOAT = '0',
  LMOVE = '',
  LPOP = '',
  LTRIM = { ok = 'OK' },
  RPOP = '',
  RPOPLPUSH = '',
  SPOP = { set = { [''] = true } },
  SWAPDB = { ok = 'OK' },
  ZPOPMAX = { '', '0' },
  ZPOPMIN = { '', '0' },
}
