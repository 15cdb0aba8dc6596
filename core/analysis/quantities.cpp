#include "analysis/quantities.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "analysis/numbers/format.h"
#include "analysis/quantity_parts.h"

namespace optrush {
namespace {
struct UnitForm {
  std::string_view name;
  std::string (*text)(double);
};
/// By Unit.
constexpr std::array<UnitForm, 12> kUnits = {
    {{"number", grouped},
     {"whole", [](double value) { return fixed(value, 0); }},
     {"seconds", duration},
     {"bytes", bytes},
     {"flop_rate", flops_rate},
     {"gigabyte_rate", [](double value) { return fixed(value / 1e9, 2); }},
     {"share", [](double value) { return percent(value); }},
     {"relative_error", [](double value) { return change(1 + value); }},
     {"loss", [](double value) { return fixed(value, 4); }},
     {"joules", [](double value) { return grouped(value * 1e3) + " mJ"; }},
     {"watts", [](double value) { return fixed(value, 0) + " W"; }},
     {"megahertz", [](double value) { return fixed(value, 0) + " MHz"; }}}};
}  // namespace

const std::vector<Quantity>& quantities() {
  static const std::vector<Quantity> all = [] {
    std::vector<Quantity> list = rung_quantities();
    std::ranges::move(step_quantities(), std::back_inserter(list));
    return list;
  }();
  return all;
}

Quantity Quantity::in(std::initializer_list<Output> outputs) const {
  Quantity shown = *this;
  for (const Output& output : outputs) shown.*output.member = output.name.empty() ? csv : output.name;
  return shown;
}

Quantity Quantity::over_runs(decltype(of_run) of_one, OverRuns combined) const {
  Quantity all = *this;
  all.of_run = of_one;
  all.over = combined;
  return all;
}

Quantity Quantity::if_fewer() const {
  Quantity some = *this;
  some.of_fewer = true;
  return some;
}

std::string_view to_string(Unit unit) { return kUnits.at(static_cast<size_t>(unit)).name; }
std::string text_of(Unit unit, double value) { return kUnits.at(static_cast<size_t>(unit)).text(value); }

std::optional<double> number_of(const Quantity& q, const Analysis& a, const Row& row) {
  if (q.value) return q.value(a, row);
  const auto found = row.numbers.find(q.csv);
  return found == row.numbers.end() ? std::nullopt : std::optional(found->second);
}

const Quantity& quantity(std::string_view csv) {
  return *std::ranges::find(quantities(), csv, &Quantity::csv);
}

const Quantity* quantity_of_grid(std::string_view name) {
  const auto found = std::ranges::find(quantities(), name, &Quantity::grid);
  return found == quantities().end() ? nullptr : &*found;
}

std::string title_in_grid(const Quantity& q) { return q.grid_title.empty() ? q.title : q.grid_title; }

std::vector<std::string> grid_column_names() {
  std::vector<std::string> names;
  for (const Quantity& q : quantities())
    if (!q.grid.empty()) names.push_back(q.grid);
  return names;
}

std::string cell_of(const Quantity& q, const Analysis& a, const Row& row) {
  if (q.word) return q.word(a, row);
  return or_unknown(number_of(q, a, row), [&](double value) { return text_of(q.unit, value); });
}
}  // namespace optrush
