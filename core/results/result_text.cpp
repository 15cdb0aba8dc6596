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
template <double StepResult::*Member>
void read_number(JsonCursor& cursor, StepResult& step) {
  if (!cursor.null()) step.*Member = cursor.number();
}

template <int64_t StepResult::*Member>
void read_count(JsonCursor& cursor, StepResult& step) {
  if (!cursor.null()) step.*Member = cursor.integer();
}

struct StepField {
  std::string_view name;
  void (*read)(JsonCursor&, StepResult&);  ///< null: read_phases()
};
/// The fields that record_of(const StepResult*) declares; the required ones come first.
constexpr std::array<StepField, 11> kFields = {
    {{"step", [](JsonCursor& cursor, StepResult& step) { step.step = cursor.integer(); }},
     {"timed", [](JsonCursor& cursor, StepResult& step) { step.timed = cursor.boolean(); }},
     {"loss", read_number<&StepResult::loss>},
     {"grad_norm", read_number<&StepResult::grad_norm>},
     {"tokens", [](JsonCursor& cursor, StepResult& step) { step.trained = cursor.integer(); }},
     {"seconds", [](JsonCursor& cursor, StepResult& step) { step.seconds = cursor.number(); }},
     {"phases", nullptr},
     {"learning_rate", read_number<&StepResult::learning_rate>},
     {"processed_tokens", read_count<&StepResult::tokens>},
     {"positions", read_count<&StepResult::positions>},
     {"attention_pairs", [](JsonCursor& cursor, StepResult& step) {
        if (!cursor.null()) step.attention_pairs = cursor.number();
      }}}};
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

bool read_step(JsonCursor& cursor, bool keep_phases, StepResult& step) {
  unsigned seen = 0;
  std::string_view key;
  for (cursor.enter('{'); cursor.next_member(key);) {
    const auto field =
        static_cast<size_t>(std::ranges::find(kFields, key, &StepField::name) - kFields.begin());
    if (field == kFields.size() || (seen & (1U << field)) != 0) return false;
    seen |= 1U << field;
    if (kFields[field].read != nullptr)
      kFields[field].read(cursor, step);
    else if (!read_phases(cursor, keep_phases, step))
      return false;
    if (!cursor.good()) return false;
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
      steps = read_steps(cursor, keep.details);
      if (!steps) return std::nullopt;
      rest.replace(begin, cursor.position(), "[]");
    } else if (key == "plan" && !keep.plan) {
      pass_over(cursor, rest);
    } else if (key == "costs" && !keep.details) {
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
  if (!keep.details)
    for (StepResult& step : result.steps) step.phases = {};
  if (!keep.plan) result.plan.reset();
  if (!keep.details && result.costs.is_object())
    for (auto& [name, cost] : result.costs.items())
      if (is_of_operators(name)) cost = nullptr;
  return result;
}
}  // namespace optrush
