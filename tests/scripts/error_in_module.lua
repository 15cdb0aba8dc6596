-- The error has the line of the mistake in the module, and not the line of the require.
-- expect-error: modules/broken.lua:2: no plugin 'fused_adam'
-- expect-error:   hint: did you mean 'fused_adamw'?
require "modules.broken"
