#include "base/json_cursor.h"

#include <charconv>

namespace optrush {
namespace {
bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
}  // namespace

void JsonCursor::space() {
  while (place_ != end_ && is_space(*place_)) ++place_;
}

size_t JsonCursor::position() {
  space();
  return static_cast<size_t>(place_ - begin_);
}

bool JsonCursor::take(char c) {
  space();
  if (!good_ || place_ == end_ || *place_ != c) return false;
  ++place_;
  return true;
}

bool JsonCursor::take(std::string_view word) {
  space();
  if (!good_ || !std::string_view(place_, static_cast<size_t>(end_ - place_)).starts_with(word)) return false;
  place_ += word.size();
  return true;
}

bool JsonCursor::enter(char bracket) {
  first_ = true;
  return good_ = take(bracket);
}

/// Skips the comma. Returns false at the closing bracket.
bool JsonCursor::next(char bracket) {
  if (!good_) return false;
  if (take(bracket)) {
    first_ = false;
    return false;
  }
  if (!first_) good_ = take(',');
  first_ = false;
  return good_;
}

bool JsonCursor::next_item() { return next(']'); }

bool JsonCursor::next_member(std::string_view& key) {
  return next('}') && (good_ = string(key) && take(':'));
}

bool JsonCursor::string(std::string_view& content) {
  if (!take('"')) return false;
  const char* const start = place_;
  for (; place_ != end_ && *place_ != '"'; ++place_)
    if (const auto c = static_cast<unsigned char>(*place_); c < 0x20 || c > 0x7e || c == '\\') return false;
  if (place_ == end_) return false;
  content = {start, static_cast<size_t>(place_ - start)};
  ++place_;
  return true;
}

/// A number in JSON's grammar: no leading zero, no plus, digits on both sides of a point.
std::string_view JsonCursor::number_text(bool& whole) {
  space();
  const char *const start = place_, *at = place_;
  const auto digits = [&] {
    const char* const first = at;
    while (at != end_ && is_digit(*at)) ++at;
    return at != first;
  };
  if (at != end_ && *at == '-') ++at;
  const char* const leading = at;
  good_ = good_ && digits() && (*leading != '0' || at == leading + 1);
  whole = true;
  if (good_ && at != end_ && *at == '.') {
    ++at;
    whole = false;
    good_ = digits();
  }
  if (good_ && at != end_ && (*at == 'e' || *at == 'E')) {
    ++at;
    whole = false;
    if (at != end_ && (*at == '+' || *at == '-')) ++at;
    good_ = digits();
  }
  place_ = at;
  return {start, static_cast<size_t>(at - start)};
}

double JsonCursor::number() {
  bool whole = false;
  const std::string_view text = number_text(whole);
  double value = 0;
  if (good_) good_ = std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc();
  return value;
}

int64_t JsonCursor::integer() {
  bool whole = false;
  const std::string_view text = number_text(whole);
  int64_t value = 0;
  if (good_)
    good_ = whole && std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc();
  return value;
}

bool JsonCursor::boolean() {
  if (take("true")) return true;
  good_ = take("false");
  return false;
}

bool JsonCursor::null() { return take("null"); }

/// Skips the rest of a string after its opening quote.
void JsonCursor::skip_string() {
  for (; place_ != end_ && *place_ != '"'; ++place_)
    if (*place_ == '\\' && ++place_ == end_) break;
  good_ = place_ != end_;
  if (good_) ++place_;
}

std::string_view JsonCursor::skip() {
  space();
  const char* const start = place_;
  size_t open = 0;
  do {
    if (!good_ || place_ == end_) {
      good_ = false;
      return {};
    }
    switch (*place_++) {
      case '"':
        skip_string();
        break;
      case '{':
      case '[':
        ++open;
        break;
      case '}':
      case ']':
        if (open == 0) {
          good_ = false;
          return {};
        }
        --open;
        break;
      default:  // number or word
        if (open > 0) break;
        while (place_ != end_ && !is_space(*place_) && *place_ != ',' && *place_ != ']' && *place_ != '}')
          ++place_;
    }
  } while (open > 0);
  first_ = false;
  return {start, static_cast<size_t>(place_ - start)};
}
}  // namespace optrush
