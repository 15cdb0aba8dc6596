#include "launch/progress.h"

#include <algorithm>
#include <cmath>

#include "base/command_line.h"
#include "base/number_text.h"
#include "base/printable.h"
#include "base/seconds_since.h"
#include "base/text.h"

namespace optrush {
namespace {
constexpr int kWholeName = 1000;

Colour colour_of(Status status) {
  if (status == Status::ok) return Colour::green;
  return status == Status::skipped ? Colour::yellow : Colour::red;
}

/// An estimate in minutes needs no seconds.
std::string rough(double seconds) {
  return seconds < 60 ? fixed(std::ceil(seconds), 0) + " s" : clock_time(std::round(seconds / 60) * 60);
}
}  // namespace

void TimeLeft::done(const Work& work, double seconds) {
  took_[{work.purpose, work.variant}] = {seconds, work.steps};
}

std::optional<double> TimeLeft::mean_of(Purpose purpose) const {
  double sum = 0, count = 0;
  for (const auto& [kind, took] : took_)
    if (kind.first == purpose) sum += took.seconds, ++count;
  if (count == 0) return std::nullopt;
  return sum / count;
}

std::optional<double> TimeLeft::expected(const Work& work) const {
  const auto it = took_.find({work.purpose, work.variant});
  if (it == took_.end()) return mean_of(work.purpose);
  // A drift run has no more steps than other runs of the base.
  return it->second.seconds * static_cast<double>(work.steps) / static_cast<double>(it->second.steps);
}

std::optional<double> TimeLeft::remaining(const std::vector<UnderWay>& under_way,
                                          const std::map<Work, int64_t>& later) const {
  TimeLeft with_these = *this;
  double left = 0;
  for (const auto& [spec, elapsed, steps, before, length] : under_way) {
    const Work work = work_of(spec);
    std::optional<double> whole = with_these.expected(work);
    if (!whole && steps > 0)
      whole = elapsed * static_cast<double>((length > 0 ? length : work.steps) - before) /
              static_cast<double>(steps);
    if (!whole) return std::nullopt;
    with_these.done(work, std::max(*whole, elapsed));
    left += std::max(0.0, *whole - elapsed);
  }
  if (later.empty()) return left;
  const double present = with_these.expected(work_of(under_way.front().spec)).value_or(0);
  std::map<Purpose, double> means;  // for kinds without a finished run, computed once: there may be thousands
  for (const auto& [work, count] : later) {
    const bool known = with_these.took_.contains({work.purpose, work.variant});
    if (!known && !means.contains(work.purpose))
      means[work.purpose] = with_these.mean_of(work.purpose).value_or(present);
    left += static_cast<double>(count) * (known ? *with_these.expected(work) : means.at(work.purpose));
  }
  return left;
}

std::string Progress::Begun::title(int name_columns) const {
  const int64_t ranks = job.spec.train.world_size;
  return "[" + std::to_string(position.number) + "/" + std::to_string(position.total) +
         (position.open ? "+] " : "] ") + fit(job.spec.rung, name_columns) + ", " + position.purpose +
         (ranks > 1 ? ", " + std::to_string(ranks) + " ranks" : "") + ": ";
}

void Progress::note(const std::string& text, Colour colour) {
  clear();
  terminal_.write(terminal_.paint(colour, printable_lines(as_typed(text))) + "\n");
}

Progress::Begun* Progress::find(const std::string& id) {
  const auto found = std::ranges::find(begun_, id, [](const Begun& one) { return one.job.id; });
  return found == begun_.end() ? nullptr : &*found;
}

double Progress::elapsed(const Begun& one) const {
  if (one.job.id != present_) return one.seconds;
  return one.seconds + seconds_since(since_);
}

void Progress::pause() {
  if (Begun* one = find(present_)) one->seconds = elapsed(*one);
  present_.clear();
}

void Progress::begin(const Job& job, const Position& position, const std::filesystem::path& metrics,
                     std::map<Work, int64_t> later) {
  begun_.push_back({job, position, MetricsTail(metrics)});
  later_ = std::move(later);
  resume(job);
}

void Progress::resume(const Job& job) {
  pause();
  present_ = job.id;
  since_ = std::chrono::steady_clock::now();
  tick();
}

void Progress::tick() {
  Begun* const present = find(present_);
  if (present == nullptr || !terminal_.live) return;
  const RunState& state = present->state = present->metrics.update();
  const TrainSpec& train = present->job.spec.train;
  std::vector<std::string> parts;
  if (state.steps > 0 && !state.phase.starts_with("compiling"))
    parts.push_back("step " + std::to_string(state.steps) + "/" + std::to_string(state.length_by(train)));
  else
    parts.push_back(state.phase.empty() ? "starting" : state.phase);
  if (const auto speed = state.tokens_per_second()) parts.push_back(grouped(*speed) + " tokens/s");
  if (state.loss) parts.push_back("loss " + fixed(*state.loss, 3));
  std::vector<TimeLeft::UnderWay> under_way;
  for (const Begun& one : begun_)
    under_way.push_back({one.job.spec, elapsed(one), one.state.steps - one.state.steps_before,
                         one.state.steps_before, one.state.length_by(one.job.spec.train)});
  if (const auto left = time_left_.remaining(under_way, later_)) parts.push_back(rough(*left) + " left");
  stage(present->title(terminal_.columns() / 3) + join(parts));
}

void Progress::end(const Job& job, const RunResult& result) {
  const Begun* one = find(job.id);
  if (one == nullptr) return;
  const double seconds = elapsed(*one);
  if (result.ok() && !one->job.from_step) time_left_.done(work_of(job.spec), seconds);
  Ended ended{one->position.number,     job.spec,
              one->title(kWholeName),   terminal_.paint(colour_of(result.status), to_string(result.status)),
              result.tokens_per_second, ", " + clock_time(seconds)};
  if (!result.ok()) ended.rest += ": " + printable(with_cure(result.reason));
  ended_.push_back(std::move(ended));
  abandon(job);
  if (begun_.empty()) print_ended();
}

void Progress::print_ended() {
  clear();
  std::ranges::sort(ended_, {}, &Ended::number);
  for (const Ended& run : ended_)
    if (run.spec.purpose == Purpose::measure && run.spec.variant == 0 && run.tokens_per_second)
      base_of_round_[run.spec.round] = *run.tokens_per_second;
  for (const Ended& run : ended_) {
    std::string line = run.title + run.status;
    if (run.tokens_per_second) {
      line += ", " + grouped(*run.tokens_per_second) + " tokens/s";
      const auto base = base_of_round_.find(run.spec.round);
      const bool compares = run.spec.purpose == Purpose::measure && run.spec.variant > 0;
      if (compares && base != base_of_round_.end() && base->second > 0)
        line += " (" + fixed(*run.tokens_per_second / base->second, 2) + "x base)";
    }
    terminal_.write(line + run.rest + "\n");
  }
  ended_.clear();
}

void Progress::abandon(const Job& job) {
  if (present_ == job.id) pause();
  std::erase_if(begun_, [&](const Begun& one) { return one.job.id == job.id; });
  clear();
}

void Progress::stage(const std::string& line) {
  if (!terminal_.live) return;
  // One column stays free, because some terminals wrap a full line.
  terminal_.write("\r\x1b[2K" + fit(line, terminal_.columns() - 1));
  drawn_ = true;
}

void Progress::clear() {
  if (drawn_) terminal_.write("\r\x1b[2K");
  drawn_ = false;
}
}  // namespace optrush
