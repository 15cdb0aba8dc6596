-- A misspelled global.
-- expect-error: error_unknown_global.lua:5: attempt to call a nil value (global 'pirnt')
-- expect-error:   error_unknown_global.lua:5: in main chunk
-- expect-error:   hint: did you mean 'print'?
pirnt("x")
