// Quantities: speed and its ratios.
#include "report/analysis/quantity_parts.h"
#include "report/numbers/verdict.h"

namespace optrush {
namespace {
using A = const Analysis&;
using R = const Row&;

MaybeNumber per_device(R row) {
  if (!row.tokens_per_second) return std::nullopt;
  return *row.tokens_per_second / static_cast<double>(row.devices);
}

MaybeNumber ratio_value(const Comparison& c) { return c.speed ? MaybeNumber(c.speed->value) : std::nullopt; }

MaybeNumber interval_low(const Comparison& c) {
  return c.speed && c.speed->interval ? MaybeNumber(c.speed->interval->low) : std::nullopt;
}

MaybeNumber interval_high(const Comparison& c) {
  return c.speed && c.speed->interval ? MaybeNumber(c.speed->interval->high) : std::nullopt;
}

std::string verdict_word(const Comparison& c) {
  return c.speed ? std::string(to_string(verdict_of(*c.speed).outcome)) : "";
}
}  // namespace

std::vector<Quantity> speed_quantities() {
  return {
      {.csv = "tokens_per_second",
       .json = "tokens_per_second",
       .grid = "tokens_per_second",
       .compared = "tokens_per_second",
       .tracked = "tokens_per_second",
       .run = "tokens_per_second",
       .of_run = member<&RunResult::tokens_per_second>,
       .value = field<&Row::tokens_per_second>,
       .title = "tokens/s",
       .doc =
           "processed tokens per second (every position except padding) of all devices, median over rounds"},
      {.csv = "tokens_per_second_per_device",
       .json = "tokens_per_second_per_device",
       .value = [](A, R r) { return per_device(r); },
       .title = "tokens/s per device",
       .doc = "tokens_per_second divided by the number of devices"},
      {.csv = "trained_tokens_per_second",
       .json = "trained_tokens_per_second",
       .compared = "trained_tokens_per_second",
       .tracked = "trained_tokens_per_second",
       .run = "trained_tokens_per_second",
       .of_run = member<&RunResult::trained_tokens_per_second>,
       .value = field<&Row::trained_tokens_per_second>,
       .title = "trained tokens/s",
       .of_fewer = true,
       .doc = "tokens with a loss per second of all devices, median over rounds"},
      {.csv = "padding",
       .json = "padding",
       .compared = "padding",
       .run = "padding",
       .unit = Unit::share,
       .of_run = [](const RunResult& run) { return run.padding(); },
       .value = field<&Row::padding>,
       .title = "padding",
       .of_fewer = true,
       .doc = "share of padded positions, 0 to 1"},
      {.csv = "step_seconds",
       .json = "step_seconds",
       .grid = "step_time",
       .run = "step_seconds",
       .unit = Unit::seconds,
       .of_run = member<&RunResult::step_seconds>,
       .value = field<&Row::step_seconds>,
       .title = "step",
       .doc = "median over rounds of each run's median step"},
      {.csv = "previous",
       .word = [](A, R r) { return r.previous.name; },
       .doc = "rung that vs_previous compares with"},
      {.csv = "vs_previous",
       .tracked = "speedup_vs_previous",
       .value = [](A, R r) { return ratio_value(r.previous); },
       .doc = "tokens_per_second divided by that of `previous`, geometric mean over rounds"},
      {.csv = "vs_previous_low",
       .tracked = "speedup_vs_previous_low",
       .value = [](A, R r) { return interval_low(r.previous); },
       .doc = "lower end of the interval of vs_previous (95 %; 98 % with `within`); empty with fewer than 3 "
              "rounds"},
      {.csv = "vs_previous_high",
       .tracked = "speedup_vs_previous_high",
       .value = [](A, R r) { return interval_high(r.previous); },
       .doc = "upper end of that interval"},
      {.csv = "vs_previous_verdict",
       .word = [](A, R r) { return verdict_word(r.previous); },
       .doc = "faster, slower, no difference, undecided, too few rounds or the same run"},
      {.csv = "vs_previous_differs",
       .word = [](A, R r) { return r.previous.differs; },
       .doc = "why `previous` solves another problem; empty: the same problem"},
      {.csv = "base",
       .word = [](A, R r) { return r.base.name; },
       .doc = "rung that vs_base compares with: the base, or the rung that replaces it"},
      {.csv = "vs_base",
       .tracked = "speedup_vs_base",
       .value = [](A, R r) { return ratio_value(r.base); },
       .doc = "tokens_per_second divided by that of `base`"},
      {.csv = "vs_base_low",
       .tracked = "speedup_vs_base_low",
       .value = [](A, R r) { return interval_low(r.base); },
       .doc = "lower end of the 95 % interval of vs_base"},
      {.csv = "vs_base_high",
       .tracked = "speedup_vs_base_high",
       .value = [](A, R r) { return interval_high(r.base); },
       .doc = "upper end of that interval"},
      {.csv = "vs_base_verdict",
       .word = [](A, R r) { return verdict_word(r.base); },
       .doc = "the same words as vs_previous_verdict"},
      {.csv = "vs_base_differs",
       .word = [](A, R r) { return r.base.differs; },
       .doc = "why `base` solves another problem; empty: the same problem"},
  };
}
}  // namespace optrush
