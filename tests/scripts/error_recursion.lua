-- A function that calls itself without end.
-- expect-error: error_recursion.lua:13: stack overflow
-- expect-error:   error_recursion.lua:13: in upvalue 'again'
-- expect-error:   error_recursion.lua:13: in upvalue 'again'
-- expect-error:   error_recursion.lua:13: in upvalue 'again'
-- expect-error:   error_recursion.lua:13: in upvalue 'again'
-- expect-error:   error_recursion.lua:13: in upvalue 'again'
-- expect-error:   error_recursion.lua:13: in upvalue 'again'
-- expect-error:   error_recursion.lua:13: in upvalue 'again'
-- expect-error:   error_recursion.lua:13: in upvalue 'again'
-- expect-error:   ...
-- expect-error:   hint: check for endless recursion
local function again(n) return 1 + again(n + 1) end
again(1)
