#include "results/result_text.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/files.h"
#include "base/json_cursor.h"
#include "optrush/error.h"

namespace optrush {
namespace {
/// The fields that record_of(const StepResult*) declares; the required ones come first.
constexpr std::array<std::string_view, 11> kFields = {"step",      "timed",          "loss",
                                                      "grad_norm", "tokens",         "seconds",
                                                      "phases",    "learning_rate",  "processed_tokens",
                                                      "positions", "attention_pairs"};
constexpr unsigned kRequired = (1U << 7U) - 1;

bool read_phases(JsonCursor& cursor, bool keep, StepResult& step) {
  constexpr size_t kMost = 16;
  std::array<std::string_view, kMost> names;
  size_t count = 0;
  std::string_view name;
  for (cursor.enter('{'); cursor.next_member(name); ++count) {
    const auto known = names.begin() + static_cast<std::ptrdiff_t>(count);
    if (count == kMost || std::find(names.begin(), known, name) != known) return false;
    names[count] = name;
    const auto seconds = cursor.null() ? std::nullopt : std::optional(cursor.number());
    if (keep) step.phases.emplace_back(name, seconds);
  }
  return cursor.good();
}

bool read_field(JsonCursor& cursor, size_t field, bool keep_phases, StepResult& step) {
  const auto number = [&](double& value) {
    if (!cursor.null()) value = cursor.number();
  };
  const auto count = [&](int64_t& value) {
    if (!cursor.null()) value = cursor.integer();
  };
  switch (field) {
    case 0:
      step.step = cursor.integer();
      break;
    case 1:
      step.timed = cursor.boolean();
      break;
    case 2:
      number(step.loss);
      break;
    case 3:
      number(step.grad_norm);
      break;
    case 4:
      step.trained = cursor.integer();
      break;
    case 5:
      step.seconds = cursor.number();
      break;
    case 6:
      return read_phases(cursor, keep_phases, step);
    case 7:
      number(step.learning_rate);
      break;
    case 8:
      count(step.tokens);
      break;
    case 9:
      count(step.positions);
      break;
    default:
      if (!cursor.null()) step.attention_pairs = cursor.number();
  }
  return cursor.good();
}

bool read_step(JsonCursor& cursor, bool keep_phases, StepResult& step) {
  unsigned seen = 0;
  std::string_view key;
  for (cursor.enter('{'); cursor.next_member(key);) {
    const auto field = static_cast<size_t>(std::ranges::find(kFields, key) - kFields.begin());
    if (field == kFields.size() || (seen & (1U << field)) != 0) return false;
    seen |= 1U << field;
    if (!read_field(cursor, field, keep_phases, step)) return false;
  }
  if (!cursor.good() || (seen & kRequired) != kRequired) return false;
  complete(step);
  return true;
}

/// None if a step differs from the form that a worker writes.
std::optional<std::vector<StepResult>> read_steps(JsonCursor& cursor, bool keep_phases) {
  std::vector<StepResult> steps;
  for (cursor.enter('['); cursor.next_item();)
    if (!read_step(cursor, keep_phases, steps.emplace_back())) return std::nullopt;
  if (!cursor.good()) return std::nullopt;
  steps.shrink_to_fit();
  return steps;
}

/// Copies a text without some of its values.
class Rest {
 public:
  explicit Rest(std::string_view text) : text_(text) {}
  /// Must be called in order of the text.
  void replace(size_t begin, size_t end, std::string_view instead) {
    kept_ += text_.substr(taken_, begin - taken_);
    kept_ += instead;
    taken_ = end;
  }
  std::string whole() const { return kept_ + std::string(text_.substr(taken_)); }

 private:
  std::string_view text_;
  std::string kept_;
  size_t taken_ = 0;
};

void pass_over(JsonCursor& cursor, Rest& rest) {
  const size_t begin = cursor.position();
  cursor.skip();
  rest.replace(begin, cursor.position(), "null");
}

/// The largest members of `costs`.
bool is_of_operators(std::string_view name) { return name == "operators" || name == "phases"; }

void pass_over_operators(JsonCursor& cursor, Rest& rest) {
  if (cursor.null()) return;
  std::string_view key;
  for (cursor.enter('{'); cursor.next_member(key);)
    if (is_of_operators(key))
      pass_over(cursor, rest);
    else
      cursor.skip();
}

/// None if the cursor can't read the text. Then the text is parsed as a document, whose errors are precise.
std::optional<RunResult> read_fast(std::string_view text, const std::string& where,
                                   const ResultParts& keep) try {
  JsonCursor cursor(text);
  Rest rest(text);
  std::optional<std::vector<StepResult>> steps;
  std::string_view key;
  for (cursor.enter('{'); cursor.next_member(key);) {
    if (key == "steps") {
      if (steps) return std::nullopt;
      const size_t begin = cursor.position();
      steps = read_steps(cursor, keep.phases_of_steps);
      if (!steps) return std::nullopt;
      rest.replace(begin, cursor.position(), "[]");
    } else if (key == "plan" && !keep.plan) {
      pass_over(cursor, rest);
    } else if (key == "costs" && !keep.costs_of_operators) {
      pass_over_operators(cursor, rest);
    } else {
      cursor.skip();
    }
  }
  if (!cursor.good() || !cursor.at_end() || !steps) return std::nullopt;
  RunResult result = run_result_from_json(parse_json(rest.whole(), where), where);
  result.steps = std::move(*steps);
  return result;
} catch (const Error&) {
  return std::nullopt;
}
}  // namespace

RunResult run_result_from_text(std::string_view text, const std::string& where, const ResultParts& keep) {
  if (auto result = read_fast(text, where, keep)) return std::move(*result);
  RunResult result = run_result_from_json(parse_stored(text, where), where);
  if (!keep.phases_of_steps)
    for (StepResult& step : result.steps) step.phases = {};
  if (!keep.plan) result.plan.reset();
  if (!keep.costs_of_operators && result.costs.is_object())
    for (auto& [name, cost] : result.costs.items())
      if (is_of_operators(name)) cost = nullptr;
  return result;
}
}  // namespace optrush
