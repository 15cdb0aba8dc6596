// metrics.jsonl of a run, read while a worker or another program writes it.
#include "launch/run/metrics_tail.h"

#include "target.h"

namespace {
using optrush::RunState;

bool equal_states(const RunState& a, const RunState& b) {
  const auto number = [](const std::optional<double>& value) { return value.value_or(-1); };
  return a.phase == b.phase && a.steps == b.steps && number(a.loss) == number(b.loss) &&
         a.timed_tokens == b.timed_tokens && a.timed_seconds == b.timed_seconds;
}
}  // namespace

FUZZ_TARGET(metrics) {
  using namespace optrush;
  static const fuzz::Files files;
  const std::string text = fuzz::text_of(data, size);
  fuzz::feed([&] {
    const bool cut = size % 4 == 0;
    files.write("metrics.jsonl", cut ? text.substr(0, size / 2) : text);
    MetricsTail in_pieces(files / "metrics.jsonl");
    in_pieces.update();
    if (!cut) return;
    files.write("metrics.jsonl", text);
    MetricsTail at_once(files / "metrics.jsonl");
    fuzz::hold(equal_states(in_pieces.update(), at_once.update()), "pieces of a file are read as the whole");
  });
  return 0;
}
