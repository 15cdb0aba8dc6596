std = "lua54"
max_line_length = 120
exclude_files = {
  "scripts/meta/**", -- made from the binding table; stubs have unused names by nature
  "tests/scripts/**", -- wrong on purpose
}
