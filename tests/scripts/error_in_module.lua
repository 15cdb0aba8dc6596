-- The line of the module's mistake, not of the require.
-- expect-error: modules/broken.lua:2: no plugin 'fused_adam'
-- expect-error:   hint: did you mean 'fused_adamw'?
require "modules.broken"
