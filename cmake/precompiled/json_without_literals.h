#pragma once
// The JSON library without its operators ""_json, which this project does not use. They are functions that
// parse, so GCC compiles a parser in every file that reads a precompiled header with them: 0.3 CPU s a file.

// NOLINTBEGIN(bugprone-macro-parentheses)
#define _json(text, size)                   \
  _json(const char*, std::size_t) = delete; \
  template <class> /* compiled if called */ \
  nlohmann::json unused_literal(text, size)
#define _json_pointer(text, size)                   \
  _json_pointer(const char*, std::size_t) = delete; \
  template <class>                                  \
  nlohmann::json::json_pointer unused_pointer_literal(text, size)
// NOLINTEND(bugprone-macro-parentheses)
#include <nlohmann/json.hpp>
#undef _json
#undef _json_pointer
