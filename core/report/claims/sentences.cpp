// Phrases that several claims have, and the sentence on a speed.
#include <array>
#include <cmath>

#include "analysis/numbers/format.h"
#include "analysis/numbers/verdict.h"
#include "base/text.h"
#include "report/claims/claims.h"

namespace optrush {
namespace {
constexpr size_t kMostNames = 2;       ///< limit for names in a clause
constexpr double kWorthNaming = 0.05;  ///< smaller changes of memory are not mentioned
constexpr double kSmallChange = 0.02;  ///< a smaller change is stated with a decimal

/// "48 % less memory (37.4 GiB instead of 71.5 GiB)"
std::string memory_of(const Relation& e, Form form) {
  std::string text = memory_change(e.memory);
  if (!text.empty() && form == Form::finding && e.row != nullptr && e.other != nullptr)
    text += " (" + bytes(*e.row->memory.allocated) + " instead of " + bytes(*e.other->memory.allocated) + ")";
  return text;
}

std::string trains_text(const Relation& e, bool absolute, Form form) {
  const bool decided = e.speed->claim();
  std::string text = e.name;
  if (absolute) text += " trains " + grouped(*e.row->tokens_per_second) + " tokens/s";
  if (absolute && e.row->mfu) text += " (" + percent(*e.row->mfu) + " MFU)";
  if (form == Form::clause && !decided)
    text += (absolute ? " and is" : " is") + std::string(" not shown to be faster or slower than ") + e.than;
  else
    text += (absolute ? ", " : " trains ") + as_fast(e, form);
  if (e.row != nullptr && e.other != nullptr && e.row->devices != e.other->devices)
    text += " on " + counted(e.row->devices, "rank") + " instead of " + std::to_string(e.other->devices);
  if (!e.condition.empty()) text += " (not like for like: " + e.condition + ")";
  text += after(", with ", memory_of(e, form));
  if (form == Form::finding || verdict_of(*e.speed).outcome == Outcome::alike)
    text += after(", ", verdict_text(*e.speed, form, e.advice));
  return text + (e.worse ? ", but trains worse" : "");
}
}  // namespace

void add_text(Claims& claims, Weight weight, const std::string& text) {
  claims.push_back({weight, text, text});
}

void add_trains(Claims& claims, Weight weight, const Relation& relation, bool absolute,
                const std::string& remark) {
  add_claim(claims, weight, [&](Form form) {
    return trains_text(relation, absolute, form) + remark;
  }).result = absolute ? relation.row : nullptr;
}

std::string speed_text(const Ratio& speed, Form form) {
  return form == Form::finding ? interval_text(speed) : value_text(speed);
}

std::string verdict_text(const Ratio& speed, Form form, const std::string& advice) {
  const Verdict verdict = verdict_of(speed);
  if (speed.claim()) return "";
  if (!advice.empty() && form == Form::finding) return "undecided; " + advice;
  return verdict.outcome == Outcome::alike || form == Form::finding ? describe(verdict)
                                                                    : std::string(to_string(verdict.outcome));
}

std::string after(const char* separator, const std::string& text) {
  return text.empty() ? "" : separator + text;
}

std::string list_text(std::vector<std::string> parts, Form form) {
  const size_t all = parts.size();
  if (form == Form::clause && all > kMostNames + 1) {
    parts.resize(kMostNames);
    parts.push_back(std::to_string(all - kMostNames) + " more");
  }
  const std::string last = parts.back();
  parts.pop_back();
  return parts.empty() ? last : join(parts) + " and " + last;
}

std::string list_text(const Numbers& numbers, int digits, Form form) {
  const auto text = [&](const auto& each) { return each.first + " (" + fixed(each.second, digits) + ")"; };
  return list_text(texts_of(numbers, text), form);
}

std::string as_fast(const Relation& e, Form form) {
  return speed_text(*e.speed, form) + (e.condition.empty() ? " as fast as " : " as many tokens/s as ") +
         e.than;
}

std::string memory_change(const std::optional<double>& ratio) {
  if (!ratio || std::abs(*ratio - 1) < kWorthNaming) return "";
  const double part = std::abs(*ratio - 1);
  return percent(part, part < kSmallChange ? 1 : 0) + (*ratio < 1 ? " less" : " more") + " memory";
}

std::string what_happened(Status status) {
  static constexpr std::array<const char*, 7> kTexts = {"",
                                                        "ran out of memory",
                                                        "failed",
                                                        "crashed",
                                                        "did not end in time",
                                                        "did not run",
                                                        "broke the correctness gate"};
  return kTexts.at(static_cast<size_t>(status));
}
}  // namespace optrush
