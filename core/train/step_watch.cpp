#include "train/step_watch.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "base/contains.h"
#include "distributed/rendezvous.h"
#include "measure/memory.h"

namespace optrush {
namespace {
constexpr size_t kQuarters = 4, kStepsForQuarters = 8;

/// Memory must grow from each quarter to the next. A single jump, as of a late cache, is no leak.
bool grows_by_quarters(const std::vector<int64_t>& bytes) {
  const auto begin_of = [&](size_t quarter) {
    return bytes.begin() + static_cast<std::ptrdiff_t>(quarter * bytes.size() / kQuarters);
  };
  for (size_t quarter = 1; quarter < kQuarters; ++quarter) {
    const auto begin = begin_of(quarter);
    if (*std::max_element(begin_of(quarter - 1), begin) >= *std::min_element(begin, begin_of(quarter + 1)))
      return false;
  }
  return true;
}

/// A few steps may grow by chance, but not by the same amount each time.
bool grows_evenly(const std::vector<int64_t>& bytes) {
  if (bytes.size() < kQuarters) return false;
  const int64_t first = bytes[1] - bytes[0];
  for (size_t i = 1; i < bytes.size(); ++i)
    if (bytes[i] - bytes[i - 1] != first) return false;
  return first > 0;
}

constexpr int64_t kMostElements = 1024;
/// If fewer elements than this share change, most of an update is lost.
constexpr double kFew = 0.25;

std::string type_name(at::ScalarType type) {
  return type == at::kBFloat16 ? "bf16" : type == at::kHalf ? "fp16" : c10::toString(type);
}

bool is_embedding(const Param& param) { return contains(param.axes, "vocab"); }

bool keeps_more_bits(Session& session, const Shard& shard) {
  return std::ranges::any_of(session.optimizer().state(shard), &OptimizerState::is_parameter);
}

/// Whether this type rounds every decay of a second moment away: the largest decay, of the largest number
/// below a power of two, is below half of its last bit.
bool never_lowers(at::ScalarType type, double beta2) {
  const bool bf16 = type == at::kBFloat16;
  if (!bf16 && type != at::kHalf) return false;
  const double last_bit =
      bf16 ? std::numeric_limits<c10::BFloat16>::epsilon() : std::numeric_limits<c10::Half>::epsilon();
  return 1 - beta2 < last_bit / 4;
}

/// A second moment that only rises makes updates ever smaller.
std::string stuck_moments(Session& session) {
  const double beta2 = session.spec().train.beta2;
  for (const Shard& shard : session.data_parallel().shards())
    for (const OptimizerState& state : session.optimizer().state(shard))
      if (state.name == "exp_avg_sq" && never_lowers(state.value.scalar_type(), beta2))
        return "second moments are kept in " + type_name(state.value.scalar_type()) +
               ", where a decay by beta2 = " + Json(beta2).dump() +
               " is rounded away, so they never fall and updates get smaller. Set train.beta2 to 0.99 or "
               "less, or keep them in fp32 (a plugin with fp32 master weights, see optrush plugins)";
  return {};
}

/// With stochastic rounding, changes below the last bit are not lost.
bool rounds_by_chance(Session& session) {
  return std::ranges::any_of(session.recipe().optimizer.wraps(),
                             [](const Edit& edit) { return edit.traits.has(feature::rounds_by_chance); });
}

/// A view of evenly spaced elements.
Tensor sample_of(const Tensor& data) {
  const Tensor flat = data.detach().view(-1);
  return flat.slice(0, 0, flat.numel(), (flat.numel() + kMostElements - 1) / kMostElements);
}

std::string percent_text(double share) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), share > 0 && share < 0.01 ? "%.1g %%" : "%.0f %%", 100 * share);
  return text.data();
}
}  // namespace

std::optional<double> MemoryGrowth::per_step() const {
  if (!(bytes_.size() >= kStepsForQuarters ? grows_by_quarters(bytes_) : grows_evenly(bytes_)))
    return std::nullopt;
  return static_cast<double>(bytes_.back() - bytes_.front()) / static_cast<double>(bytes_.size() - 1);
}

bool StepWatch::looks_at_update(int64_t i, int64_t timed) const {
  constexpr int64_t kUpdates = 8;
  return is_measured() && i * kUpdates / timed != (i + 1) * kUpdates / timed;
}

void StepWatch::before(int64_t i, int64_t timed) {
  if (looks_at_update(i, timed)) moved_.before();
}

void StepWatch::after(int64_t i, int64_t timed) {
  if (looks_at_update(i, timed)) moved_.after();
  host_memory_.after_step(cpu_allocated());
  if (!session_.device().is_cpu()) device_memory_.after_step(allocated_now(session_.device()));
}

void StepWatch::warn() const {
  if (!is_measured()) return;
  const std::pair<const MemoryGrowth&, const char*> all[] = {{device_memory_, "on the device"},
                                                             {host_memory_, "in the host's memory"}};
  for (const auto& [memory, where] : all)
    if (const auto bytes = memory.per_step())
      session_.log().warn(
          "tensors " + std::string(where) + " grow by " + std::to_string(std::llround(*bytes)) +
          " bytes per step: a plugin keeps tensors of past steps, so a long run will run out of memory");
  for (const std::string& text : {moved_.warning(), stuck_moments(session_)})
    if (!text.empty()) session_.log().warn(text);
}

void MovedElements::before() {
  const at::NoGradGuard no_grad;
  watched_.clear();
  if (rounds_by_chance(session_)) return;
  for (const Shard& shard : session_.data_parallel().shards()) {
    const auto type = shard.data.scalar_type();
    if (at::elementSize(type) > 2 || !shard.data.is_contiguous() || shard.data.numel() == 0) continue;
    if (keeps_more_bits(session_, shard)) continue;
    for (const Segment& segment : shard.segments) {
      if (is_embedding(*segment.param) || segment.layout.numel() == 0) continue;
      type_ = type_name(type);
      const Tensor elements = sample_of(Shard::part(shard.data, segment));
      watched_.push_back({segment.param->shape.size() < 2 ? vectors : matrices, elements, elements.clone()});
    }
  }
  if (!watched_.empty()) ++updates_;
}

void MovedElements::after() {
  const at::NoGradGuard no_grad;
  for (const auto& [kind, elements, before] : watched_) {
    Count& count = counts_.at(kind);
    count.elements += elements.numel();
    const Tensor moved = elements.ne(before).sum();
    count.moved = count.moved.defined() ? count.moved + moved : moved;
  }
  watched_.clear();
}

std::string MovedElements::warning() const {
  Json mine{{"type", type_}, {"updates", updates_}, {"elements", Json::array()}, {"moved", Json::array()}};
  for (const Count& count : counts_) {
    mine["elements"].push_back(count.elements);
    mine["moved"].push_back(count.moved.defined() ? count.moved.item<int64_t>() : 0);
  }
  // A rank sees only its own shards, so the counts of all ranks are added.
  std::vector<std::string> of_ranks{mine.dump()};
  if (const Ranks& ranks = session_.ranks(); ranks.size > 1)
    of_ranks = gather_texts(*session_.store(), ranks, "moved_elements", of_ranks.front());
  std::array<int64_t, kKinds> elements{}, moved{};
  std::string type;
  int64_t updates = 0;
  for (const auto& text : of_ranks) {
    const Json rank = Json::parse(text);
    if (type.empty()) type = rank.at("type");
    updates = std::max(updates, rank.at("updates").get<int64_t>());
    for (size_t kind = 0; kind < kKinds; ++kind) {
      elements.at(kind) += rank.at("elements").at(kind).get<int64_t>();
      moved.at(kind) += rank.at("moved").at(kind).get<int64_t>();
    }
  }
  std::string found;
  for (const auto& [kind, name] : {std::pair(vectors, "vectors (norms, biases)"), {matrices, "matrices"}}) {
    if (elements.at(kind) == 0) continue;
    const double share = static_cast<double>(moved.at(kind)) / static_cast<double>(elements.at(kind));
    if (share < kFew)
      found += (found.empty() ? "" : " and ") + percent_text(share) + " of the elements of " + name;
  }
  if (found.empty()) return {};
  return "in " + type + ", an update changes only " + found + " (mean of " + std::to_string(updates) +
         (updates == 1 ? " update" : " updates") +
         "); the other changes are rounded away. Stack a plugin "
         "that keeps fp32 master weights (see optrush plugins), train in fp32, or raise the learning rate";
}
}  // namespace optrush
