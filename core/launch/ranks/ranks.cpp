#include "launch/ranks/ranks.h"

#include <algorithm>

#include "base/seconds_since.h"
#include "base/text.h"

namespace optrush {
namespace {
using Verdict = RankEnd::Verdict;
using Kind = RanksEnd::Kind;
constexpr double kMostSettles = 5;
}  // namespace

RankWatch::RankWatch(std::vector<std::unique_ptr<RunningRank>>& ranks, const RankLimits& limits,
                     Interrupts& interrupts)
    : ranks_(ranks), limits_(limits), interrupts_(interrupts), ends_(ranks.size()) {}

bool RankWatch::goes_on() {
  const bool any = poll();
  if (first_own_) return seconds_since(*first_own_) < limits_.own_s;
  if (first_outside_) return seconds_since(*first_outside_) < limits_.outside_s;
  if (!any) return false;
  // Other ranks may still report that they wait. The remaining ranks are the absent ones.
  if (first_failure_)
    return seconds_since(last_end_) < limits_.settle_s &&
           seconds_since(*first_failure_) < kMostSettles * limits_.settle_s;
  if (!ends_[0] || seconds_since(last_end_) < limits_.linger_s) return true;
  outcome_.kind = Kind::lingered;
  return false;
}

RanksEnd RankWatch::end(Kind why) {
  if (why != Kind::ok) outcome_.kind = why;
  const auto present = running();
  const bool asked = why == Kind::interrupted || why == Kind::timed_out;
  if (!present.empty()) end_others(present, asked ? limits_.stop_grace_s : limits_.grace_s);
  settle(present);
  for (auto& end : ends_) outcome_.ends.push_back(std::move(*end));
  outcome_.ended_here = present;
  return std::move(outcome_);
}

std::vector<size_t> RankWatch::running() const {
  std::vector<size_t> indices;
  for (size_t i = 0; i < ends_.size(); ++i)
    if (!ends_[i]) indices.push_back(i);
  return indices;
}

/// Records new ends. Returns whether a rank is still running.
bool RankWatch::poll() {
  bool any = false;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ends_[i]) continue;
    ends_[i] = ranks_[i]->poll();
    if (ends_[i]) note_end(i);
    any = any || !ends_[i];
  }
  return any;
}

void RankWatch::note_end(size_t i) {
  ends_[i]->name = ranks_[i]->name();
  ends_[i]->time = utc_now();
  outcome_.order.push_back(i);
  last_end_ = Clock::now();
  const Verdict verdict = ends_[i]->verdict();
  if (!first_failure_ && verdict != Verdict::ok) first_failure_ = last_end_;
  if (!first_outside_ && verdict == Verdict::outside) first_outside_ = last_end_;
  if (!first_own_ && verdict == Verdict::own) first_own_ = last_end_;
}

/// The first ended rank with this verdict, in order of ends.
std::optional<size_t> RankWatch::first(Verdict verdict) const {
  for (const size_t i : outcome_.order)
    if (ends_[i]->verdict() == verdict) return i;
  return std::nullopt;
}

void RankWatch::end_others(const std::vector<size_t>& present, double grace_s) {
  for (const size_t i : present) ranks_[i]->terminate();
  wait_for_ends(grace_s, /*patient=*/false);
  for (const size_t i : running()) ranks_[i]->kill();
  wait_for_ends(limits_.gone_s, /*patient=*/true);
  for (const size_t i : running()) {
    ends_[i] = RankEnd{.lost = "it did not report its end"};
    note_end(i);
  }
}

/// Another signal shortens the time, unless `patient`.
void RankWatch::wait_for_ends(double limit_s, bool patient) {
  const auto start = Clock::now();
  while (poll() && seconds_since(start) < limit_s)
    if (interrupts_.wait(std::chrono::milliseconds(20)) && !patient) return;
}

/// Determines the rank that explains the run. `present`: ranks that had not ended at that time.
void RankWatch::settle(const std::vector<size_t>& present) {
  if (outcome_.kind == Kind::interrupted) return;
  const auto by_itself = [&](size_t i) { return std::ranges::count(present, i) == 0; };
  for (const size_t i : outcome_.order) {
    const auto& result = ends_[i]->result;
    // A rank that we ended counts if it reported that it had failed on its own.
    const bool counts = by_itself(i) || (result && result->cause == Cause::own);
    if (counts && ends_[i]->verdict() == Verdict::own) return name(Kind::failed, i);
  }
  for (const size_t i : outcome_.order)
    if (by_itself(i) && ends_[i]->verdict() == Verdict::outside) return name(Kind::failed, i);
  if (outcome_.kind != Kind::ok) return name(outcome_.kind, least_far(present));
  const auto absence = first(Verdict::absence), peer = first(Verdict::peer);
  if (absence && !present.empty()) {
    outcome_.waiting = ranks_[*absence]->name() + ": " + ends_[*absence]->result.value().reason;
    return name(Kind::absent, least_far(present));
  }
  if (absence || peer) name(Kind::failed, absence ? *absence : *peer);
}

void RankWatch::name(Kind kind, size_t rank) {
  outcome_.kind = kind;
  outcome_.rank = rank;
}

size_t RankWatch::least_far(const std::vector<size_t>& present) const {
  return *std::ranges::min_element(present, {}, [&](size_t i) { return ends_[i]->state.steps; });
}
}  // namespace optrush
