-- An error of Lua carries its line and the calls that led there.
-- expect-error: error_with_traceback.lua:6: attempt to index a nil value (local 'rung')
-- expect-error:   error_with_traceback.lua:6: in upvalue 'inner'
-- expect-error:   error_with_traceback.lua:7: in local 'outer'
-- expect-error:   error_with_traceback.lua:8: in main chunk
local function inner() local rung; return rung.name end
local function outer() return (inner()) end
outer()
