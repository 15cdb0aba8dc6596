#include "launch/interleaving/peak_log.h"

#include <algorithm>

#include "base/files.h"
#include "launch/machine/context.h"

namespace optrush {
namespace fs = std::filesystem;
namespace {
/// Share of an experiment's time.
constexpr double kShareOfTime = 0.05;
/// Assumed time of a measurement on two cores, until it is known.
constexpr double kUsualSeconds = 10;

bool has_peaks(const Json& context) {
  const Json::json_pointer pointer("/peak/dtype_flops");
  return context.contains(pointer) && context.at(pointer).is_object();
}

void note(const fs::path& file, int64_t rounds, const Json& context) {
  const Json line = {{"round", rounds}, {"dtype_flops", context.at("peak").at("dtype_flops")}};
  append_line(file, line.dump());
}
}  // namespace

Json with_best_peaks(Json context, const Json& other) {
  if (!has_peaks(context) || !has_peaks(other)) return context;
  Json& peak = context["peak"];
  for (const auto& [dtype, flops] : other.at("peak").at("dtype_flops").items()) {
    Json& own = peak["dtype_flops"][dtype];
    if (flops.is_number() && (!own.is_number() || own < flops)) own = flops;
  }
  // If MFU uses the maker's figure, there is nothing to measure.
  if (peak.value("source", "") == "measured" && other.at("peak").value("source", "") == "measured" &&
      other.at("peak").value("mfu_denominator", 0.0) > peak.value("mfu_denominator", 0.0))
    for (const char* key : {"mfu_dtype", "mfu_denominator"}) peak[key] = other.at("peak").at(key);
  return context;
}

PeakLog::PeakLog(fs::path folder, ForkServer& workers, const RunSpec& base, Journal& journal,
                 Interrupts& interrupts)
    : folder_(std::move(folder)),
      workers_(workers),
      base_(base),
      journal_(journal),
      interrupts_(interrupts),
      takes_s_(kUsualSeconds) {}

void PeakLog::look(int64_t rounds) {
  const auto seconds_since_last = [&] { return std::chrono::duration<double>(Clock::now() - last_).count(); };
  const fs::path file = folder_ / "context.json", log = folder_ / "peaks.jsonl";
  if (interrupts_.signal() != 0 || takes_s_ > kShareOfTime * seconds_since_last() || !fs::exists(file))
    return;
  const Json before = read_json(file);
  if (!has_peaks(before)) return;
  last_ = Clock::now();
  const Json now = ask_doctor(base_, workers_, /*quick=*/false, interrupts_);
  takes_s_ = seconds_since_last();
  if (interrupts_.signal() != 0 || !has_peaks(now)) return;
  close_torn_line(log);
  if (!fs::exists(log)) note(log, 0, before);
  note(log, rounds, now);
  journal_.write("context.json", with_best_peaks(before, now));
}
}  // namespace optrush
