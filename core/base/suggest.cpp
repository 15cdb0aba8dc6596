#include "base/suggest.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <utility>

#include "base/contains.h"
#include "base/text.h"

namespace optrush {
namespace {
/// Optimal string alignment distance: Damerau-Levenshtein distance in which no substring is edited twice.
/// Ignores case.
size_t distance(std::string_view a, std::string_view b) {
  const size_t columns = b.size() + 1;
  std::vector<size_t> table((a.size() + 1) * columns);
  auto at = [&](size_t i, size_t j) -> size_t& { return table[i * columns + j]; };
  auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  for (size_t i = 0; i <= a.size(); ++i) at(i, 0) = i;
  for (size_t j = 0; j <= b.size(); ++j) at(0, j) = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t cost = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + cost});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
}
}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    const size_t d = distance(word, candidate);
    if (d < best_distance) best = candidate, best_distance = d;
  }
  if (!best.empty()) return best;
  for (const auto& candidate : candidates)
    if (word.size() >= 3 && candidate.find(word) != std::string::npos) return candidate;
  return {};
}

namespace {
using Renamed = std::pair<std::string_view, std::string_view>;

/// The names in other frameworks of our settings and values.
constexpr Renamed kOfOthers[] = {{"batch_size", "micro_batch"},
                                 {"per_device_train_batch_size", "micro_batch"},
                                 {"micro_batch_size", "micro_batch"},
                                 {"gradient_accumulation_steps", "accumulation"},
                                 {"grad_accum", "accumulation"},
                                 {"learning_rate", "lr"},
                                 {"max_steps", "steps"},
                                 {"max_length", "seq_len"},
                                 {"max_seq_length", "seq_len"},
                                 {"max_seq_len", "seq_len"},
                                 {"sequence_length", "seq_len"},
                                 {"block_size", "seq_len"},
                                 {"context_length", "seq_len"},
                                 {"gpu", "cuda"},
                                 {"float64", "fp64"},
                                 {"float32", "fp32"},
                                 {"float16", "fp16"},
                                 {"bfloat16", "bf16"}};
constexpr Renamed kFormer[] = {{"turns", "interleave"}, {"--turns", "--interleave"}};

/// The second name of a pair; "" if none has this first name.
std::string_view renamed(std::span<const Renamed> pairs, std::string_view first) {
  const auto found = std::ranges::find(pairs, first, &Renamed::first);
  return found == pairs.end() ? std::string_view() : found->second;
}
}  // namespace

std::string meant(std::string_view word, const std::vector<std::string>& candidates) {
  if (const std::string here(renamed(kOfOthers, word)); contains(candidates, here)) return here;
  return nearest(word, candidates);
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  if (const auto best = meant(word, candidates); !best.empty()) return "did you mean '" + best + "'?";
  if (candidates.empty()) return "no value is allowed here";
  auto sorted = candidates;
  std::sort(sorted.begin(), sorted.end());
  return "one of: " + join(sorted);
}

std::string or_else(std::string hint, std::string_view way) {
  hint += hint.ends_with('?') ? " Or " : "; or ";
  return hint.append(way);
}

std::string_view present_name(std::string_view former) { return renamed(kFormer, former); }
}  // namespace optrush
