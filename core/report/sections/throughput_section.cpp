#include <algorithm>
#include <map>

#include "analysis/numbers/format.h"
#include "analysis/quantities.h"
#include "base/text.h"
#include "report/sections/document.h"

namespace optrush {
namespace {
/// For example "In the fastest row, fused loss, a step is 24 % forward, 75 % backward, 1 % optimizer."
std::string phase_lead(const Row& row) {
  std::vector<std::string> shares;
  for (const auto& [name, seconds] : row.phases)
    if (const double share = seconds.value_or(0) / total_seconds(row.phases); share >= 0.005)
      shares.push_back(percent(share, 0) + " " + name);
  return "In the fastest row, " + name_in_text(row.name) + ", a step is " + join(shares) + ".";
}

std::string mfu_cell(const Row& row) {
  if (!row.model_flops_per_second) return kUnknown;
  const std::string rate = flops_rate(*row.model_flops_per_second);
  std::vector<std::string> parts;
  const auto share = [](double mfu) { return mfu < 0.0005 ? "below 0.1 %" : percent(mfu); };
  if (row.mfu) parts.push_back(share(*row.mfu));
  if (row.mfu_sustained) parts.push_back(share(*row.mfu_sustained) + " of sustained");
  if (row.mfu_of_dtype) parts.push_back(share(*row.mfu_of_dtype) + " of " + row.dtype);
  return parts.empty() ? rate : join(parts) + " (" + rate + ")";
}

/// Explains which tokens each figure counts, if they differ.
void explain_tokens(const Rows& rows, Section& section) {
  const bool fewer = std::ranges::any_of(rows, &Row::trains_on_fewer),
             pads = std::ranges::any_of(rows, &Row::pads);
  if (fewer || pads)
    section.bullets.push_back(std::string("Tokens/s count processed tokens: every position except padding, "
                                          "prompts included. Speedups, MFU and HFU use them.") +
                              (fewer ? " Trained tokens/s count tokens with a loss." : "") +
                              (pads ? " Padding is the share of padded positions." : ""));
}

/// Explains which peak each share uses.
void explain_mfu(const Analysis& a, const Rows& rows, Section& section) {
  if (std::ranges::none_of(rows, [](const Row* row) { return row->mfu.has_value(); })) return;
  std::string text = "MFU divides by " + mfu_peak_text(a.context);
  std::map<std::string, std::vector<std::string>> own;
  for (const Row* row : rows)
    if (row->mfu_of_dtype) own[row->dtype].push_back(row->name);
  for (const auto& [dtype, names] : own)
    text += ". For rungs that multiply in " + dtype + ", \"of " + dtype +
            "\" divides by the measured peak of that type, " +
            or_unknown(peak_of_dtype(a.context, dtype), flops_rate);
  section.bullets.push_back(text + ".");
  if (std::ranges::any_of(rows, [](const Row* row) { return row->mfu_sustained.has_value(); }))
    section.bullets.push_back("\"Of sustained\" divides by " + flops_rate(*sustained_rate(a.context)) +
                              ", the matmul rate that this GPU held for seconds before the runs.");
}

/// An HFU below the MFU looks like an error.
void explain_hfu(const Rows& rows, Section& section) {
  if (std::ranges::any_of(rows, [](const Row* row) { return row->hfu && row->mfu && *row->hfu < *row->mfu; }))
    section.bullets.emplace_back(
        "HFU is below MFU where a causal kernel skips the hidden half of attention, which only the MFU "
        "counts.");
}

/// States once which rungs the power limit slowed down.
void explain_power(const Analysis& a, const Rows& rows, Section& section) {
  const auto of = [&](const char* name, const Row& row) { return number_of(quantity(name), a, row); };
  std::vector<std::string> capped;
  size_t known = 0;
  std::optional<double> limit;
  for (const Row* row : rows) {
    const auto share = of("at_power_cap", *row);
    if (!share) continue;
    ++known;
    if (*share < kAtPowerCap) continue;
    capped.push_back(row->name);
    limit = of("power_limit_watts", *row);
  }
  if (capped.empty()) return;
  const bool all = capped.size() == known;
  section.bullets.push_back((all ? "Every rung" : listed_names(capped)) + " ran at the power cap" +
                            (limit ? " of " + text_of(Unit::watts, *limit) : "") +
                            " of the GPU for at least half of its timed steps. " +
                            (all || capped.size() == 1 ? "Its rate is" : "Their rates are") +
                            " what the GPU does at that power.");
}

/// States which rows were interleaved, if any.
void explain_interleaving(const Rows& rows, Section& section) {
  std::vector<std::string> interleaved, later, alone;
  for (const Row* row : rows) {
    if (!row->tokens_per_second) continue;
    if (!row->was_interleaved())
      alone.push_back(row->name);
    else if (!row->rounds.empty() && row->rounds.front() == 0 && row->turns.front().group.empty())
      later.push_back(row->name);
    else
      interleaved.push_back(row->name);
  }
  if (interleaved.empty() && later.empty()) return;
  std::vector<std::string> parts;
  if (later.empty() && alone.empty())
    parts.emplace_back("All rungs were interleaved step by step.");
  else if (!interleaved.empty())
    parts.push_back("Interleaved step by step: " + listed_names(interleaved) + ".");
  if (!later.empty())
    parts.push_back(
        "Interleaved from the second round on, when their memory is known: " + listed_names(later) + ".");
  if (!alone.empty()) parts.push_back("Not interleaved: " + listed_names(alone) + ".");
  section.bullets.push_back(join(parts, " "));
}
}  // namespace

Section throughput_section(const Analysis& a, const Family& family) {
  Section section{
      .title = title_for("Throughput", family),
      .lead = "This section shows the tokens/s of each round and step, and the use of the hardware.",
      .chart = "throughput" + family.suffix,
      .caption = "The chart shows the tokens/s of every timed step of each rung's " +
                 shown_round(family.rows) + "."};
  const auto known = [&](const char* name) {
    return [&a, &q = quantity(name)](const Row& row) { return number_of(q, a, row).has_value(); };
  };
  const auto any = [&](auto&& wanted) { return !rows_where(family.rows, wanted).empty(); };
  const bool devices = any([](const Row&row) { return row.devices > 1; }),
             compiles = any([&](const Row&row) {
               return number_of(quantity("compile_seconds"), a, row).value_or(0) > 0;
             }),
             utilization = !a.experiment.program, cost = a.experiment.price_per_hour > 0;
  std::vector<std::string_view> shown;
  for (const auto& [name, wanted] : std::initializer_list<std::pair<const char*, bool>>{
           {"tokens_per_second_per_device", devices},
           {"devices", devices},
           {"step_seconds", true},
           {"mfu_causal", utilization},
           {"hfu", utilization},
           {"compile_seconds", compiles},
           {"setup_seconds", true},
           {"trained_tokens_per_second", any(&Row::trains_on_fewer)},
           {"padding", any(&Row::pads)},
           {"joules_per_token", !rows_where(a.rows, known("joules_per_token")).empty()},
           {"gpu_watts", any(known("gpu_watts"))},
           {"sm_clock_mhz", any(known("sm_clock_mhz"))},
           {"at_power_cap", any(known("at_power_cap"))},
           {"cost_per_million_tokens", cost}})
    if (wanted) shown.emplace_back(name);
  const Rows rows = rows_where(family.rows, [](const Row& row) { return !row.samples.empty(); });
  if (!rows.empty()) {
    Table& table = section.table.emplace();
    table.add({"rung"}, rows, &Row::name);
    table.add({"tokens/s of each round"}, rows,
              [](const Row* row) { return join(texts_of(row->samples, grouped), " · "); });
    if (utilization) table.add({"MFU", true}, rows, [](const Row* row) { return mfu_cell(*row); });
    add_columns(table, shown, a, rows);
    if (cost) table.columns.back().title = a.experiment.currency + " per million tokens";
  }
  explain_tokens(family.rows, section);
  explain_mfu(a, family.rows, section);
  explain_hfu(family.rows, section);
  explain_power(a, family.rows, section);
  explain_interleaving(family.rows, section);
  const bool first = family.suffix.empty();  // text about the whole report is shown there
  if (a.drift && first)
    section.bullets.push_back("Drift: the base ran again at the end with " + grouped(a.drift->last) +
                              " tokens/s, " + change(a.drift->last / a.drift->first) +
                              " from its median of " + grouped(a.drift->first) + ".");
  if (cost && first)
    section.bullets.push_back("Price: " + grouped(a.experiment.price_per_hour) + " " + a.experiment.currency +
                              " per hour for all devices.");
  return section;
}

Rows rows_with_phases(const Rows& rows) {
  return rows_where(rows, [](const Row& row) { return row.ok() && total_seconds(row.phases) > 0; });
}

Section phase_section(const Analysis&, const Family& family) {
  const auto rows = rows_with_phases(family.rows);
  if (rows.empty()) return {};
  Section section{.title = title_for("Phases of a step", family),
                  .lead = phase_lead(**std::ranges::max_element(
                      rows, {}, [](const Row* row) { return row->tokens_per_second.value_or(0); })),
                  .chart = "phases" + family.suffix,
                  .caption = "The chart shows the median time of each phase of a step.",
                  .table = Table()};
  std::vector<std::string> names;
  for (const Row* row : rows)
    for (const auto& [name, seconds] : row->phases)
      if (seconds && *seconds > 0 && std::ranges::find(names, name) == names.end()) names.push_back(name);
  section.table->add({"rung"}, rows, &Row::name);
  for (const auto& name : names)
    section.table->add({name, true}, rows,
                       [&](const Row* row) { return or_unknown(value_named(row->phases, name), duration); });
  return section;
}
}  // namespace optrush
