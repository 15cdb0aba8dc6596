-- error(nil) has no text.
-- expect-error: nil
-- expect-error:   error_nil.lua:4: in main chunk
error(nil)
